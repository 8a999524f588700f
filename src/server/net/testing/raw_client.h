#pragma once

// A client for tests that says exactly the bytes it is told to. Every wait is bounded.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace millrace::server::testing {

struct Response {
  int status = 0;
  std::string head, body;

  bool has(std::string_view text) const { return head.find(text) != head.npos; }
};

class RawClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// "127.0.0.1:8080" or "unix:/path". `receive_bytes` > 0: the size of the receive buffer.
  explicit RawClient(const std::string& address, int receive_bytes = 0) {
    sockaddr_storage storage{};
    socklen_t size;
    if (address.starts_with("unix:")) {
      auto& un = reinterpret_cast<sockaddr_un&>(storage);
      un.sun_family = AF_UNIX;
      address.copy(un.sun_path, sizeof un.sun_path - 1, 5);
      size = sizeof un;
    } else {
      auto& in = reinterpret_cast<sockaddr_in&>(storage);
      const auto colon = address.rfind(':');
      in.sin_family = AF_INET;
      in.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
      ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &in.sin_addr);
      size = sizeof in;
    }
    fd_ = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_bytes > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&storage), size) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), unread_(std::move(other.unread_)) {}
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  /// False once the server has reset the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  void end_sending() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

  /// What came up to and with `mark`; nothing when it did not come in time or the connection ended.
  std::optional<std::string> read_until(std::string_view mark, Milliseconds timeout = Milliseconds(5000)) {
    const auto end = Clock::now() + timeout;
    for (;;) {
      if (const auto at = unread_.find(mark); at != unread_.npos) return take(at + mark.size());
      if (!receive(end)) return std::nullopt;
    }
  }

  std::optional<std::string> read_bytes(std::size_t n, Milliseconds timeout = Milliseconds(5000)) {
    const auto end = Clock::now() + timeout;
    while (unread_.size() < n)
      if (!receive(end)) return std::nullopt;
    return take(n);
  }

  /// Everything up to the end of the connection.
  std::string read_all(Milliseconds timeout = Milliseconds(5000)) {
    const auto end = Clock::now() + timeout;
    while (receive(end)) {}
    return std::exchange(unread_, {});
  }

  /// True when the connection ends, or is reset, in time; what came before is dropped.
  bool ends_within(Milliseconds timeout) {
    const auto end = Clock::now() + timeout;
    while (receive(end)) unread_.clear();
    return ended_;
  }

  /// True when nothing comes and nothing ends for that time.
  bool silent_for(Milliseconds time) { return unread_.empty() && !receive(Clock::now() + time) && !ended_; }

  /// The next answer that is no interim one; its body by Content-Length, or by its chunks, or none for `head_only`.
  std::optional<Response> read_response(bool head_only = false) {
    Response out;
    do {
      auto head = read_until("\r\n\r\n");
      if (!head || head->size() < 12) return std::nullopt;
      out.status = std::atoi(head->c_str() + 9);
      out.head = std::move(*head);
    } while (out.status < 200);
    if (head_only) return out;
    if (const auto at = out.head.find("Content-Length: "); at != out.head.npos) {
      auto body = read_bytes(static_cast<std::size_t>(std::atoll(out.head.c_str() + at + 16)));
      if (!body) return std::nullopt;
      out.body = std::move(*body);
    } else if (out.has("Transfer-Encoding: chunked")) {
      for (;;) {
        const auto line = read_until("\r\n");
        if (!line) return std::nullopt;
        const auto n = std::strtoull(line->c_str(), nullptr, 16);
        auto chunk = read_bytes(n + 2);
        if (!chunk) return std::nullopt;
        if (n == 0) break;
        out.body.append(*chunk, 0, n);
      }
    }
    return out;
  }

  std::optional<Response> ask(std::string_view request) {
    send(request);
    return read_response();
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string take(std::size_t n) {
    std::string out = unread_.substr(0, n);
    unread_.erase(0, n);
    return out;
  }

  /// More bytes in unread_, before `end`.
  bool receive(Clock::time_point end) {
    const auto left = std::chrono::duration_cast<Milliseconds>(end - Clock::now()).count();
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(std::max<long long>(left, 0))) != 1) return false;
    char buffer[16 << 10];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n > 0) unread_.append(buffer, static_cast<std::size_t>(n));
    ended_ |= n <= 0;
    return n > 0;
  }

  int fd_ = -1;
  bool connected_ = false, ended_ = false;
  std::string unread_;
};

}  // namespace millrace::server::testing
