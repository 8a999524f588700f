#pragma once

// How this folder fails. A template error can come from any depth of parsing or evaluation, so it travels as a C++
// exception inside text/jinja and nowhere else: ChatTemplate::parse and ::render turn it into a Result.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace millrace::text::jinja {

struct Raised {
  Code code;
  std::string message;
  int line = 0;  // 0: not known yet; the statement being run fills it in
};

/// The template is broken as a text.
template <class... Args>
[[noreturn]] void raise_syntax(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw Raised{Code::corrupt_data, fmt::format(format, std::forward<Args>(args)...), line};
}

/// The template and these variables do not fit; worded as Python or Jinja2 would.
template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw Raised{Code::invalid_argument, fmt::format(format, std::forward<Args>(args)...)};
}

/// More work or memory than RenderLimits allows.
template <class... Args>
[[noreturn]] void raise_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw Raised{Code::exhausted, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace millrace::text::jinja
