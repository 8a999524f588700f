#include "server/net/listen_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "server/net/resolve.h"

namespace millrace::server::net {
namespace {

constexpr int kBacklog = 4096;  // the kernel takes less where net.core.somaxconn says so

Error listen_error(const std::string& address, int problem) {
  switch (problem) {
    case EADDRINUSE: return error(Code::exhausted, "cannot listen on {}: the port is in use", address);
    case EACCES: return error(Code::invalid_argument, "cannot listen on {}: no permission", address);
    case EADDRNOTAVAIL: return error(Code::invalid_argument, "cannot listen on {}: not an address of this machine", address);
    default: return error(Code::exhausted, "cannot listen on {}: {}", address, std::strerror(problem));
  }
}

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

SocketAddress name_of(int fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  ::getsockname(fd, address.get(), &address.size);
  return address;
}

int port_of(int fd) {
  const SocketAddress address = name_of(fd);
  return ntohs(address.storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port
                                                    : reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
}

struct Attempt {
  ListenSocket socket{-1, "", false};
  int problem = 0;  // errno, 0: it listens
};

Attempt try_listen(SocketAddress address, int port, bool tls) {
  address.set_port(port);
  const int family = address.storage.ss_family;
  const int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return {{-1, "", false}, errno};
  ListenSocket owner(fd, "", tls);
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);  // a restart does not wait for old connections to time out (O12.2)
  if (family == AF_INET6) {
    // "::" means every address, IPv4 ones too; anything else means what it says.
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address.storage);
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr) ? 0 : 1);
  }
  if (::bind(fd, address.get(), address.size) != 0 || ::listen(fd, kBacklog) != 0) return {{-1, "", false}, errno};
  return {ListenSocket(owner.release(), text_of(name_of(fd)), tls), 0};
}

/// Addresses that a name has and this machine has not ("localhost" without IPv6) are left out, as long as one remains.
Result<std::vector<ListenSocket>> listen_at_addresses(const ListenAt& at, const std::vector<SocketAddress>& addresses) {
  std::vector<ListenSocket> out;
  int port = at.port, problem = 0;
  for (const SocketAddress& address : addresses) {
    Attempt attempt = try_listen(address, port, at.tls);
    if (attempt.problem == 0) {
      port = port_of(attempt.socket.fd());  // one port for all
      const auto same = [&](const ListenSocket& one) { return one.address() == attempt.socket.address(); };
      if (std::ranges::none_of(out, same)) out.push_back(std::move(attempt.socket));
    } else if (attempt.problem != EADDRNOTAVAIL && attempt.problem != EAFNOSUPPORT) {
      return listen_error(fmt::format("{}:{}", at.host, port), attempt.problem);
    } else {
      problem = attempt.problem;
    }
  }
  if (out.empty()) return listen_error(fmt::format("{}:{}", at.host, at.port), problem);
  return out;
}

Result<std::vector<ListenSocket>> listen_at_host(const ListenAt& at) {
  const std::string words = fmt::format("{}:{}", at.host, at.port);
  if (at.port < 0 || at.port > 65535) return error(Code::invalid_argument, "cannot listen on {}: a port is 0 to 65535", words);
  auto addresses = resolve(at.host);
  if (!addresses) return std::move(addresses).error().in("cannot listen on " + words);
  // The port that was free for the first address of a name may be taken for the second: another free one, then.
  for (int tries = at.port == 0 ? 8 : 1;; --tries) {
    auto listening = listen_at_addresses(at, *addresses);
    if (listening || tries == 1) return listening;
  }
}

Result<std::vector<ListenSocket>> listen_at_path(const ListenAt& at) {
  const std::string& path = at.unix_path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return error(Code::invalid_argument, "cannot listen on unix:{}: a socket's path has at most {} bytes, this one has {}", path,
                 sizeof address.sun_path - 1, path.size());
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  ListenSocket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "unix:" + path, at.tls);
  if (socket.fd() < 0) return listen_error("unix:" + path, errno);
  if (struct stat before{}; ::lstat(path.c_str(), &before) == 0) {
    if (!S_ISSOCK(before.st_mode)) return error(Code::invalid_argument, "cannot listen on unix:{}: a file that is no socket is there", path);
    const ListenSocket probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "", false);
    const int refused = ::connect(probe.fd(), name, sizeof address) == 0 ? 0 : errno;
    if (refused == EACCES) return listen_error("unix:" + path, refused);
    if (refused != ECONNREFUSED)
      return error(Code::exhausted, "cannot listen on unix:{}: another server is there", path);
    ::unlink(path.c_str());  // left by a server that was killed
  }
  if (::bind(socket.fd(), name, sizeof address) != 0) return listen_error("unix:" + path, errno);
  socket.own_file(path);
  if (::listen(socket.fd(), kBacklog) != 0) return listen_error("unix:" + path, errno);
  std::vector<ListenSocket> out;
  out.push_back(std::move(socket));
  return out;
}

Result<std::vector<ListenSocket>> take_descriptor(const ListenAt& at) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(at.descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
    return error(Code::invalid_argument, "descriptor {} is no socket that listens", at.descriptor);
  ::fcntl(at.descriptor, F_SETFL, ::fcntl(at.descriptor, F_GETFL) | O_NONBLOCK);
  ::fcntl(at.descriptor, F_SETFD, FD_CLOEXEC);
  const SocketAddress address = name_of(at.descriptor);
  std::string words = text_of(address);
  if (address.storage.ss_family == AF_UNIX) words = std::string("unix:") + reinterpret_cast<const sockaddr_un&>(address.storage).sun_path;
  std::vector<ListenSocket> out;
  out.emplace_back(at.descriptor, std::move(words), at.tls);
  return out;
}

}  // namespace

void ListenSocket::own_file(std::string path) {
  struct stat now{};
  if (::lstat(path.c_str(), &now) != 0) return;
  path_ = std::move(path);
  device_ = now.st_dev;
  inode_ = now.st_ino;
}

void ListenSocket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (path_.empty()) return;
  // By now the path may be the next server's.
  if (struct stat now{}; ::lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_) ::unlink(path_.c_str());
  path_.clear();
}

Result<std::vector<ListenSocket>> listen_at(const ListenAt& at) {
  if (at.descriptor >= 0) return take_descriptor(at);
  return at.unix_path.empty() ? listen_at_host(at) : listen_at_path(at);
}

}  // namespace millrace::server::net
