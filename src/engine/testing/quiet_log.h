#pragma once

// For a test that makes hundreds of files worth a warning.

#include "base/log.h"

namespace millrace::engine::testing {

struct QuietLog {
  QuietLog() { set_log_level(LogLevel::off); }
  ~QuietLog() { set_log_level(LogLevel::warn); }
};

}  // namespace millrace::engine::testing
