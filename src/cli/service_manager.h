#pragma once

// The service manager that may have started this process (systemd, or what speaks its protocol): tells it how we are, and
// takes the sockets that it already listens at. Does nothing where there is none. Knows no server.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::cli {

/// "READY=1", "STATUS=loading 42 %", "STOPPING=1", "RELOADING=1", "WATCHDOG=1", or several lines. Never fails: a
/// manager that does not listen is no reason to stop serving. One that does not keep up misses a STATUS by itself; for the
/// rest we wait, two seconds at most. Any thread.
void notify_service_manager(const std::string& state);

/// The listening stream sockets that were passed to us, marked close-on-exec; empty when none were. Their variables leave
/// the environment, so that they are taken once. Errors: invalid_argument for a descriptor that is something else.
Result<std::vector<int>> inherited_descriptors();

/// How often "WATCHDOG=1" has to come at the latest, if the manager wants it.
std::optional<std::chrono::microseconds> watchdog_interval();

}  // namespace millrace::cli
