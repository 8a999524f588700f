#include "cli/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace millrace::cli {

// Not sd_notify: that waits as long as the manager does not read, and its queue is full with some ten datagrams.
void notify_service_manager(const std::string& state) {
  constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};
  const char* set = std::getenv("NOTIFY_SOCKET");
  std::string path = set ? set : "";
  sockaddr_un address{.sun_family = AF_UNIX};
  if ((path[0] != '/' && path[0] != '@') || path.size() >= sizeof address.sun_path) return;
  if (path[0] == '@') path[0] = '\0';  // a name that is no file
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());

  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  const bool may_be_lost = state.starts_with("STATUS=") && state.find('\n') == state.npos;
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), length) == 0)
    (void)!send(descriptor, state.data(), state.size(), MSG_NOSIGNAL | (may_be_lost ? MSG_DONTWAIT : 0));
  close(descriptor);
}

Result<std::vector<int>> inherited_descriptors() {
  const int n = sd_listen_fds(/*unset_environment=*/1);
  if (n < 0) return error(Code::invalid_argument, "LISTEN_FDS: {}", std::strerror(-n));
  std::vector<int> out;
  for (int descriptor = SD_LISTEN_FDS_START; descriptor < SD_LISTEN_FDS_START + n; ++descriptor) {
    if (sd_is_socket(descriptor, AF_UNSPEC, SOCK_STREAM, /*listening=*/1) <= 0)
      return error(Code::invalid_argument, "descriptor {} from the service manager is no listening stream socket", descriptor);
    out.push_back(descriptor);
  }
  return out;
}

std::optional<std::chrono::microseconds> watchdog_interval() {
  std::uint64_t interval_us = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &interval_us) <= 0) return std::nullopt;
  return std::chrono::microseconds(interval_us);
}

}  // namespace millrace::cli
