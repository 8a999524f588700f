#pragma once

// MILLRACE_CHECK(cond, detail): a promise between parts of this program, never about input.
// On in every build: one compare per call site, and never inside an inner loop.

#include <string>

namespace millrace {

/// Prints "file:line: CHECK(expr) failed: detail" and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expr, const std::string& detail);

}  // namespace millrace

#define MILLRACE_CHECK(cond, detail) \
  (static_cast<bool>(cond) ? void(0) : ::millrace::check_failed(__FILE__, __LINE__, #cond, (detail)))
