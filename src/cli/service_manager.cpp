#include "cli/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <cstdint>
#include <cstring>

namespace millrace::cli {

void notify_service_manager(const std::string& state) { sd_notify(/*unset_environment=*/0, state.c_str()); }

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
