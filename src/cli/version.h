#pragma once

// The version as `millrace --version` prints it; tests/cli/usage.py holds it against CMakeLists.txt.

#include <string_view>

namespace millrace::cli {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace millrace::cli
