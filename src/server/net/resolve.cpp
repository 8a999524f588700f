#include "server/net/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace millrace::server::net {
namespace {

// A start that fails has to say so within two seconds, and a resolver without a name server may take half a minute.
constexpr std::chrono::milliseconds kResolveTimeout{1500};

struct Lookup {
  int status = EAI_FAIL;
  std::vector<SocketAddress> addresses;
};

Lookup look_up(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  Lookup out;
  out.status = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (out.status != 0) return out;
  for (const addrinfo* one = list; one; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    out.addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return out;
}

/// look_up on a thread of its own, which nothing can stop: it is left behind when it takes too long.
std::optional<Lookup> look_up_in_time(const std::string& host) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Lookup> lookup;
  };
  const auto shared = std::make_shared<Shared>();
  std::thread([shared, host] {
    Lookup found = look_up(host, 0);
    const std::lock_guard lock(shared->mutex);
    shared->lookup = std::move(found);
    shared->done.notify_one();
  }).detach();
  std::unique_lock lock(shared->mutex);
  shared->done.wait_for(lock, kResolveTimeout, [&] { return shared->lookup.has_value(); });
  return std::move(shared->lookup);
}

}  // namespace

void SocketAddress::set_port(int port) {
  if (storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(static_cast<std::uint16_t>(port));
  else
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(static_cast<std::uint16_t>(port));
}

Result<std::vector<SocketAddress>> resolve(const std::string& host) {
  const std::string bare = host.size() > 2 && host.front() == '[' && host.back() == ']' ? host.substr(1, host.size() - 2) : host;
  if (bare.empty()) return error(Code::invalid_argument, "the host is empty");
  Lookup numeric = look_up(bare, AI_NUMERICHOST);
  if (numeric.status == 0 && !numeric.addresses.empty()) return std::move(numeric.addresses);
  std::optional<Lookup> named = look_up_in_time(bare);
  if (!named)
    return error(Code::invalid_argument, "the name does not resolve (no answer within {} ms)", kResolveTimeout.count());
  if (named->status != 0 || named->addresses.empty())
    return error(Code::invalid_argument, "the name does not resolve ({})",
                 named->status != 0 ? ::gai_strerror(named->status) : "it has no address");
  return std::move(named->addresses);
}

std::string text_of(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.storage.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(in->sin_port));
  }
  if (address.storage.ss_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    ::inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, ntohs(in->sin6_port));
  }
  return "unix";
}

}  // namespace millrace::server::net
