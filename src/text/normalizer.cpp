#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/utf8.h"

namespace millrace::text {
namespace {

// No decomposition is longer (U+FDFA, compatibility).
constexpr int kLongestDecomposition = 18;

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

void append_decomposed(std::vector<utf8proc_int32_t>& out, char32_t c, bool compatible) {
  utf8proc_int32_t parts[2 * kLongestDecomposition];
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, std::size(parts),
                                                     static_cast<utf8proc_option_t>(options), nullptr);
  MILLRACE_CHECK(n >= 0 && n <= static_cast<utf8proc_ssize_t>(std::size(parts)),
                 "a decomposition is longer than any in Unicode");
  out.insert(out.end(), parts, parts + n);
}

/// Canonical order: each run of marks by combining class, equal ones as they came.
void order_marks(std::span<utf8proc_int32_t> characters) {
  for (auto at = characters.begin(); at != characters.end();) {
    const auto begin = std::find_if(at, characters.end(), [](auto c) { return combining_class(c) != 0; });
    at = std::find_if(begin, characters.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(begin, at, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
  }
}

std::string replace_all(std::string_view text, std::string_view what, std::string_view with) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(what, at);
    out += text.substr(at, found - at);
    if (found == text.npos) return out;
    out += with;
    at = found + what.size();
  }
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> characters;
  const auto flush = [&] {
    order_marks(characters);
    auto n = static_cast<utf8proc_ssize_t>(characters.size());
    if (compose && n > 0)
      n = utf8proc_normalize_utf32(characters.data(), n,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    for (utf8proc_ssize_t i = 0; i < n; ++i)
      append_utf8(out, static_cast<char32_t>(characters[static_cast<std::size_t>(i)]));
    characters.clear();
  };
  while (!text.empty()) {
    const Utf8Step step = decode_utf8(text);
    if (step.kind == Utf8Step::Kind::character) {
      append_decomposed(characters, step.code_point, compatible);
    } else {
      flush();
      out += text.substr(0, static_cast<std::size_t>(step.length));
    }
    text.remove_prefix(static_cast<std::size_t>(step.length));
  }
  flush();
  return out;
}

std::string Normalizer::apply(std::string_view text, Regex::Scratch& scratch) const {
  std::string now(text);
  for (const Step& step : steps_) {
    if (const auto* form = std::get_if<NormalForm>(&step)) {
      const bool is_ascii = std::ranges::all_of(now, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      if (!is_ascii) now = to_normal_form(now, *form);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!now.empty()) now.insert(0, prepend->text);
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      now = replace_all(now, replace->what, replace->with);
    } else if (const auto* matches = std::get_if<ReplaceMatches>(&step)) {
      std::vector<Span> spans;
      matches->what.find_all(now, {0, now.size()}, scratch, spans);
      std::string out;
      std::size_t done = 0;
      for (const Span span : spans) {
        out.append(now, done, span.begin - done).append(matches->with);
        done = span.end;
      }
      now = out.append(now, done);
    }
  }
  return now;
}

}  // namespace millrace::text
