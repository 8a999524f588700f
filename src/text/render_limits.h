#pragma once

// How much one rendering of a chat template may cost. Apart from chat_template.h: the interpreter needs only this.

#include <cstddef>

namespace millrace::text {

/// Limits that turn a hostile template or conversation into an error instead of a hang.
struct RenderLimits {
  long steps = 10'000'000;          // evaluated nodes
  int depth = 200;                  // nested calls and expressions
  std::size_t bytes = 64u << 20;    // output, and each string on the way
};

}  // namespace millrace::text
