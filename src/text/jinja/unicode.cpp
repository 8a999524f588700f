#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/utf8.h"

namespace millrace::text::jinja {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Characters whose upper case is more than one character (Unicode's SpecialCasing.txt, unconditional part without the
// Greek letters with iota below). `title` is empty where it equals the upper case with all but the first lowered.
struct SpecialCase { char32_t from; const char* upper; const char* title; };
constexpr SpecialCase kSpecial[] = {
    {0x00DF, "SS", "Ss"},     {0x0149, "\u02BCN", "\u02BCN"}, {0x01F0, "J\u030C", "J\u030C"},
    {0x0390, "\u0399\u0308\u0301", "\u0399\u0308\u0301"},     {0x03B0, "\u03A5\u0308\u0301", "\u03A5\u0308\u0301"},
    {0x0587, "\u0535\u0552", "\u0535\u0582"},                 {0x1E96, "H\u0331", "H\u0331"},
    {0x1E97, "T\u0308", "T\u0308"},                           {0x1E98, "W\u030A", "W\u030A"},
    {0x1E99, "Y\u030A", "Y\u030A"},                           {0x1E9A, "A\u02BE", "A\u02BE"},
    {0xFB00, "FF", "Ff"},     {0xFB01, "FI", "Fi"},           {0xFB02, "FL", "Fl"},
    {0xFB03, "FFI", "Ffi"},   {0xFB04, "FFL", "Ffl"},         {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"},     {0xFB13, "\u0544\u0546", "\u0544\u0576"}, {0xFB14, "\u0544\u0535", "\u0544\u0565"},
    {0xFB15, "\u0544\u053B", "\u0544\u056B"},                 {0xFB16, "\u054E\u0546", "\u054E\u0576"},
    {0xFB17, "\u0544\u053D", "\u0544\u056D"},
};

const SpecialCase* special(char32_t c) {
  const auto found = std::ranges::lower_bound(kSpecial, c, {}, &SpecialCase::from);
  return found != std::end(kSpecial) && found->from == c ? found : nullptr;
}

std::string encoded(utf8proc_int32_t c) {
  std::string out;
  append_utf8(out, static_cast<char32_t>(c));
  return out;
}

}  // namespace

std::size_t count_chars(std::string_view bytes) {
  return bytes.size() - static_cast<std::size_t>(std::ranges::count_if(bytes, continues));
}

std::size_t byte_of_char(std::string_view bytes, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < bytes.size(); --index) {
    ++at;
    while (at < bytes.size() && continues(bytes[at])) ++at;
  }
  return at;
}

Char char_at(std::string_view bytes, std::size_t offset) {
  const Utf8Step step = decode_utf8(bytes.substr(offset, 4));
  return {step.kind == Utf8Step::Kind::character ? step.code_point : 0xFFFD, offset + static_cast<std::size_t>(step.length)};
}

std::size_t char_before(std::string_view bytes, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && continues(bytes[at])) --at;
  return at;
}

std::size_t find_bytes(std::string_view in, std::string_view part, std::size_t from) {
  if (from > in.size()) return in.npos;
  const std::string_view rest = in.substr(from);
  if (part.empty()) return from;
  const void* found = memmem(rest.data(), rest.size(), part.data(), part.size());  // two-way search: O(n + m)
  return found == nullptr ? in.npos : static_cast<std::size_t>(static_cast<const char*>(found) - in.data());
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

// Superscripts and circled digits have a digit value without being decimal; the common ones.
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const auto kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN && (kind < UTF8PROC_CATEGORY_ZS || kind > UTF8PROC_CATEGORY_CO);
}

bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

std::string upper_of(char32_t c) {
  if (const SpecialCase* found = special(c)) return found->upper;
  return encoded(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

std::string lower_of(char32_t c) {
  if (c == 0x130) return "i\u0307";
  return encoded(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::string title_of(char32_t c) {
  if (const SpecialCase* found = special(c)) return found->title;
  return encoded(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

std::string fold_of(char32_t c) {
  utf8proc_int32_t folded[4];
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 4, UTF8PROC_CASEFOLD, &boundary);
  if (n < 1 || n > 4) return encoded(static_cast<utf8proc_int32_t>(c));
  std::string out;
  for (utf8proc_ssize_t i = 0; i < n; ++i) out += encoded(folded[i]);
  return out;
}

}  // namespace millrace::text::jinja
