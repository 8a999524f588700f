#pragma once

// UTF-8 by hand where bytes arrive in pieces: what is a whole character, what can still become one.
// Follows Unicode's "maximal subpart" practice for broken input (The Unicode Standard, section 3.9).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

/// One step of decoding at the start of `bytes` (not empty).
struct Utf8Step {
  enum class Kind { character, broken, incomplete };
  Kind kind;
  char32_t code_point;  // for `character`
  int length;           // bytes: of the character, of the broken part (>= 1), or of the incomplete rest (= all of it)
};

Utf8Step decode_utf8(std::string_view bytes);

void append_utf8(std::string& out, char32_t code_point);

bool is_valid_utf8(std::string_view bytes);

/// `bytes` with each broken part replaced by U+FFFD; the result is valid UTF-8.
std::string repair_utf8(std::string_view bytes);

}  // namespace millrace
