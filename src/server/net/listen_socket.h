#pragma once

// Sockets that listen, from words to descriptors, with the true reason when one cannot. Knows no HTTP and does not accept.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/net/http_server.h"

namespace millrace::server::net {

/// Owns a descriptor that listens and does not block, and the file of a UNIX socket that it made.
class ListenSocket {
 public:
  ListenSocket(int fd, std::string address, bool tls) : fd_(fd), address_(std::move(address)), tls_(tls) {}
  ListenSocket(ListenSocket&& other) noexcept { swap(other); }
  ListenSocket& operator=(ListenSocket&& other) noexcept {
    swap(other);
    return *this;
  }
  ~ListenSocket() { close(); }

  int fd() const { return fd_; }
  const std::string& address() const { return address_; }  // "127.0.0.1:8080", "[::1]:8080", "unix:/run/m.sock"
  bool tls() const { return tls_; }

  /// The file is removed at the end, if it is still this one.
  void own_file(std::string path);

  /// Hands the descriptor to somebody who will close it; the file stays ours.
  int release() { return std::exchange(fd_, -1); }
  void close();

 private:
  void swap(ListenSocket& other) {
    std::swap(fd_, other.fd_);
    std::swap(address_, other.address_);
    std::swap(tls_, other.tls_);
    std::swap(path_, other.path_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
  }

  int fd_ = -1;
  std::string address_;
  bool tls_ = false;
  std::string path_;
  unsigned long long device_ = 0, inode_ = 0;
};

/// One or two sockets. Errors as HttpServer::listen.
Result<std::vector<ListenSocket>> listen_at(const ListenAt& at);

}  // namespace millrace::server::net
