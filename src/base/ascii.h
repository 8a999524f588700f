#pragma once

// Letters of ASCII, whatever the locale; other bytes stay as they are.

#include <algorithm>
#include <string>
#include <string_view>

namespace millrace {

constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string ascii_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return ascii_lower(c); });
  return out;
}

static_assert(ascii_lower('A') == 'a' && ascii_lower('Z') == 'z' && ascii_lower('@') == '@' && ascii_lower('[') == '[' && ascii_lower('\xC4') == '\xC4');

}  // namespace millrace
