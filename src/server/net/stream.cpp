#include "server/net/stream.h"

#include <sys/socket.h>

#include <cerrno>

namespace millrace::server::net {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(int fd) : fd_(fd) {}

  Io handshake() override { return Io::done; }

  IoResult read(char* to, std::size_t size) override {
    for (;;) {
      const ssize_t n = ::recv(fd_, to, size, 0);
      if (n > 0) return {Io::done, static_cast<std::size_t>(n)};
      if (n == 0) return {Io::ended};
      if (errno == EINTR) continue;
      return {errno == EAGAIN || errno == EWOULDBLOCK ? Io::wants_read : Io::failed};
    }
  }

  IoResult write(const iovec* pieces, int count) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = static_cast<std::size_t>(count);
    for (;;) {
      const ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
      if (n >= 0) return {Io::done, static_cast<std::size_t>(n)};
      if (errno == EINTR) continue;
      return {errno == EAGAIN || errno == EWOULDBLOCK ? Io::wants_write : Io::failed};
    }
  }

  bool holds_bytes() const override { return false; }
  void end_output() override { ::shutdown(fd_, SHUT_WR); }

 private:
  int fd_;
};

}  // namespace

std::unique_ptr<Stream> make_plain_stream(int fd) { return std::make_unique<PlainStream>(fd); }

}  // namespace millrace::server::net
