#include "text/jinja/str_tools.h"

#include <algorithm>

#include "text/jinja/methods.h"
#include "text/jinja/params.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

/// A capital sigma at the end of a word becomes the final one.
bool ends_word(std::string_view bytes, std::size_t begin, std::size_t end) {
  const bool after_letter = begin > 0 && is_cased(char_at(bytes, char_before(bytes, begin)).code);
  return after_letter && (end == bytes.size() || !is_cased(char_at(bytes, end).code));
}

template <class Test>
Value all_chars(const Value& self, Args& args, bool of_empty, Test test) {
  const Params p("is...", args, {});
  const std::string_view bytes = self.bytes();
  if (bytes.empty()) return Value(of_empty);
  for (std::size_t at = 0; at < bytes.size(); at = char_at(bytes, at).end)
    if (!test(char_at(bytes, at).code)) return Value(false);
  return Value(true);
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }

template <bool (*test)(char32_t), bool of_empty = false>
Value every(Workspace& ws, const Value& self, Args& args) {
  ws.spend(self.bytes().size() / 64);
  return all_chars(self, args, of_empty, test);
}

bool is_ascii(char32_t c) { return c < 0x80; }

/// islower, isupper: some cased character, and none of the other case.
template <bool upper>
Value one_case(Workspace& ws, const Value& self, Args& args) {
  const Params p(upper ? "isupper" : "islower", args, {});
  ws.spend(self.bytes().size() / 64);
  bool some = false;
  for (std::size_t at = 0; at < self.bytes().size();) {
    const Char c = char_at(self.bytes(), at);
    if (is_title(c.code) || (upper ? is_lower(c.code) : is_upper(c.code))) return Value(false);
    some = some || (upper ? is_upper(c.code) : is_lower(c.code));
    at = c.end;
  }
  return Value(some);
}

Value istitle(Workspace& ws, const Value& self, Args& args) {
  const Params p("istitle", args, {});
  ws.spend(self.bytes().size() / 64);
  bool some = false, inside = false;
  for (std::size_t at = 0; at < self.bytes().size();) {
    const Char c = char_at(self.bytes(), at);
    const bool starts = is_upper(c.code) || is_title(c.code), goes_on = is_lower(c.code);
    if ((starts && inside) || (goes_on && !inside)) return Value(false);
    inside = starts || goes_on;
    some = some || inside;
    at = c.end;
  }
  return Value(some);
}

Value isidentifier(Workspace& ws, const Value& self, Args& args) {
  ws.spend(self.bytes().size() / 64);
  if (self.bytes().empty()) return Value(false);
  const char32_t first = char_at(self.bytes(), 0).code;
  if (first != '_' && !is_alpha(first)) return Value(false);
  return all_chars(self, args, false, is_word);
}

constexpr MethodEntry kTests[] = {
    {"isalnum", every<is_alphanumeric>}, {"isalpha", every<is_alpha>}, {"isascii", every<is_ascii, true>},
    {"isdecimal", every<is_decimal>}, {"isdigit", every<is_digit>}, {"isidentifier", isidentifier},
    {"islower", one_case<false>}, {"isnumeric", every<is_numeric>}, {"isprintable", every<is_printable, true>},
    {"isspace", every<is_space>}, {"istitle", istitle}, {"isupper", one_case<true>}};

}  // namespace

std::span<const MethodEntry> str_tests() { return kTests; }

Value in_case(Workspace& ws, const Value& string, Case to) {
  const std::string_view bytes = string.bytes();
  ws.spend(bytes.size() / 16);
  TextBuilder out(ws);
  bool inside_word = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    std::string mapped;
    const bool first = to == Case::titled ? !inside_word : at == 0;
    if (to == Case::upper || (to == Case::swapped && is_lower(c.code))) mapped = upper_of(c.code);
    else if (to == Case::folded) mapped = fold_of(c.code);
    else if ((to == Case::titled || to == Case::capitalized) && first) mapped = title_of(c.code);
    else if (to == Case::swapped && !is_upper(c.code)) mapped = std::string(bytes.substr(at, c.end - at));
    else if (c.code == 0x3A3 && ends_word(bytes, at, c.end)) mapped = "\u03C2";
    else mapped = lower_of(c.code);
    inside_word = is_cased(c.code);
    out.add(mapped, string.text().origin_at(at));
    at = c.end;
  }
  return out.value(string.is_markup());
}

Value stripped(Workspace& ws, const Value& string, const Value* chars, bool left, bool right) {
  const std::string_view bytes = string.bytes();
  std::u32string set;
  if (chars != nullptr)
    for (std::size_t at = 0; at < chars->bytes().size(); at = char_at(chars->bytes(), at).end) set += char_at(chars->bytes(), at).code;
  const auto goes = [&](std::size_t at) {
    ws.spend(1 + set.size() / 64);
    const char32_t c = char_at(bytes, at).code;
    return chars == nullptr ? is_space(c) : set.find(c) != set.npos;
  };
  std::size_t begin = 0, end = bytes.size();
  while (left && begin < end && goes(begin)) begin = char_at(bytes, begin).end;
  while (right && end > begin && goes(char_before(bytes, end))) end = char_before(bytes, end);
  return ws.text(string.text().slice(begin, end), string.is_markup());
}

std::vector<Value> lines_of(Workspace& ws, const Value& string, bool keep_ends) {
  const std::string_view bytes = string.bytes();
  ws.spend(bytes.size() / 64);
  std::vector<Value> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    if (!is_line_break(c.code)) { at = c.end; continue; }
    const std::size_t end = c.code == '\r' && bytes.substr(c.end).starts_with('\n') ? c.end + 1 : c.end;
    out.push_back(ws.text(string.text().slice(begin, keep_ends ? end : at), string.is_markup()));
    begin = at = end;
  }
  if (begin < bytes.size()) out.push_back(ws.text(string.text().slice(begin, bytes.size()), string.is_markup()));
  return out;
}

Value replaced(Workspace& ws, const Value& string, const Value& old, const Value& with, std::int64_t count) {
  const std::string_view bytes = string.bytes();
  ws.spend(bytes.size() / 64);
  TextBuilder out(ws);
  std::size_t done = 0;
  if (old.bytes().empty()) {  // before every character and at the end
    for (std::size_t at = 0; count != 0; --count) {
      out.add(string.text(), done, at);
      out.add(with.text());
      ws.spend();
      done = at;
      if (at == bytes.size()) break;
      at = char_at(bytes, at).end;
    }
  } else {
    for (std::size_t at; count != 0 && (at = find_bytes(bytes, old.bytes(), done)) != bytes.npos; --count) {
      out.add(string.text(), done, at);
      out.add(with.text());
      done = at + old.bytes().size();
    }
  }
  out.add(string.text(), done, bytes.size());
  return out.value(string.is_markup());
}

Value padded(Workspace& ws, const Value& string, const FormatSpec& spec, char align) {
  TextBuilder out(ws);
  write_padded(out, string.text(), spec, align);
  return out.value(string.is_markup());
}

Value centered(Workspace& ws, const Value& string, std::int64_t width, const Text& fill) {
  const std::int64_t missing = std::max<std::int64_t>(std::max<std::int64_t>(width, 0) - static_cast<std::int64_t>(string.str()->chars), 0);
  const std::int64_t left = missing / 2 + (missing & width & 1);
  TextBuilder out(ws);
  out.add_repeated(fill, static_cast<std::size_t>(left));
  out.add(string.text());
  out.add_repeated(fill, static_cast<std::size_t>(missing - left));
  return out.value(string.is_markup());
}

}  // namespace millrace::text::jinja
