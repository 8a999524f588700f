#include "io/printable.h"

#include <algorithm>

#include "base/utf8.h"

namespace millrace::io {
namespace {

constexpr std::size_t kLongestShown = 64;
constexpr std::size_t kLongestName = 256;  // the longest published tensor names have about 100 bytes

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

std::string printable(std::string_view text) {
  std::string out = repair_utf8(text.substr(0, kLongestShown));
  std::ranges::replace_if(out, is_control, '?');
  return text.size() > kLongestShown ? out + "..." : out;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::ranges::none_of(name, is_control) && is_valid_utf8(name);
}

}  // namespace millrace::io
