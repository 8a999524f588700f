#include "base/utf8.h"

#include "base/check.h"

namespace millrace {

Utf8Step decode_utf8(std::string_view bytes) {
  MILLRACE_CHECK(!bytes.empty(), "decode_utf8 of nothing");
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {Utf8Step::Kind::character, lead, 1};

  // Second bytes of E0, ED, F0 and F4 have a narrower range: no overlong forms, no surrogates, nothing past U+10FFFF.
  int n = 0;
  unsigned low = 0x80, high = 0xBF;
  char32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) n = 2, value = lead & 0x1F;
  else if (lead >= 0xE0 && lead <= 0xEF) {
    n = 3, value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    n = 4, value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Utf8Step::Kind::broken, 0, 1};
  }
  for (int i = 1; i < n; ++i) {
    if (static_cast<std::size_t>(i) == bytes.size()) return {Utf8Step::Kind::incomplete, 0, i};
    const unsigned byte = at(static_cast<std::size_t>(i));
    if (byte < low || byte > high) return {Utf8Step::Kind::broken, 0, i};
    value = (value << 6) | (byte & 0x3F);
    low = 0x80, high = 0xBF;
  }
  return {Utf8Step::Kind::character, value, n};
}

void append_utf8(std::string& out, char32_t c) {
  const auto push = [&](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) push(c);
  else if (c < 0x800) push(0xC0 | (c >> 6)), push(0x80 | (c & 0x3F));
  else if (c < 0x10000) push(0xE0 | (c >> 12)), push(0x80 | ((c >> 6) & 0x3F)), push(0x80 | (c & 0x3F));
  else push(0xF0 | (c >> 18)), push(0x80 | ((c >> 12) & 0x3F)), push(0x80 | ((c >> 6) & 0x3F)), push(0x80 | (c & 0x3F));
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Step step = decode_utf8(bytes);
    if (step.kind != Utf8Step::Kind::character) return false;
    bytes.remove_prefix(static_cast<std::size_t>(step.length));
  }
  return true;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Step step = decode_utf8(bytes);
    if (step.kind == Utf8Step::Kind::character) out.append(bytes.substr(0, static_cast<std::size_t>(step.length)));
    else append_utf8(out, 0xFFFD);
    bytes.remove_prefix(static_cast<std::size_t>(step.length));
  }
  return out;
}

}  // namespace millrace
