#pragma once

// Time as the program uses it: a monotonic count of microseconds. Code that decides takes it as an argument.

#include <chrono>
#include <cstdint>

namespace millrace {

using Microseconds = std::int64_t;

/// Since an unspecified start; never goes back.
inline Microseconds now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace millrace
