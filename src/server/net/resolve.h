#pragma once

// A host's name to addresses to listen at, within a bounded time.

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::server::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  void set_port(int port);
};

/// Error: invalid_argument, "the name does not resolve (...)".
Result<std::vector<SocketAddress>> resolve(const std::string& host);

/// "127.0.0.1:8080", "[::1]:8080", "unix"
std::string text_of(const SocketAddress& address);

}  // namespace millrace::server::net
