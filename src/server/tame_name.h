#pragma once

// A name that a client made up, as it may stand in a header or a message: short, of plain characters.

#include <string>
#include <string_view>

namespace millrace::server {

inline std::string tame_name(std::string_view name) {
  constexpr std::size_t kMostBytes = 64;
  std::string out(name.substr(0, kMostBytes));
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!plain) c = '?';
  }
  return out;
}

}  // namespace millrace::server
