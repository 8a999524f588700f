#include "text/regex_dialect.h"

#include <algorithm>

namespace millrace::text {
namespace {

// PCRE2's \s has U+180E too, which left White_Space with Unicode 6.3.
constexpr std::string_view kBlank = R"(\p{White_Space})", kNotBlank = R"(\P{White_Space})";
// PCRE2's \w has neither marks nor all connecting punctuation.
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

Result<std::string> pcre_from_oniguruma(std::string_view pattern) {
  const auto no = [&](std::string_view what) {
    return error(Code::unsupported, "regular expression '{}' uses {}, which is not supported", pattern, what);
  };
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    const char c = pattern[i];
    if (c == '\\' && rest.size() >= 2) {
      const char escaped = rest[1];
      ++i;
      if (escaped == 's') out += kBlank;
      else if (escaped == 'S') out += kNotBlank;
      else if (escaped == 'w') out += in_class ? std::string(kWord) : fmt::format("[{}]", kWord);
      else if (escaped == 'W' && !in_class) out += fmt::format("[^{}]", kWord);
      else if (escaped == 'W') return no(R"(\W in a class)");
      else if (escaped == 'h') out += in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
      else if (escaped == 'H') return no(R"(\H)");
      else if (escaped == 'u') {
        if (rest.size() < 6 || !std::ranges::all_of(rest.substr(2, 4), is_hex))
          return no(R"(\u without four hex digits)");
        out += fmt::format("\\x{{{}}}", rest.substr(2, 4));
        i += 4;
      } else if ((escaped == 'p' || escaped == 'P' || escaped == 'x') && rest.substr(2).starts_with('{')) {
        const std::size_t end = rest.find('}');
        if (end == rest.npos) return no("'{' without '}'");
        out += rest.substr(0, end + 1);
        i += end - 1;
      } else {
        out += rest.substr(0, 2);
      }
      continue;
    }
    if (in_class) {
      if (rest.starts_with("&&")) return no("an intersection of classes");
      // Includes [:punct:] and the like, whose members differ.
      if (c == '[') return no("a class within a class");
      if (c == ']') in_class = false;
    } else if (c == '[') {
      in_class = true;
      out += c;
      if (rest.substr(1).starts_with('^')) out += '^', ++i;
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') return no("an empty class");
      continue;
    } else if (rest.starts_with("(?")) {
      // Ruby's (?m) lets a dot match a newline, PCRE2's does not. The flags end at ':' or ')'.
      const std::string_view flags = rest.substr(2, rest.find_first_not_of("imx-", 2) - 2);
      if (flags.find('m') != flags.npos) return no("the flag (?m)");
    } else if (rest.starts_with("}+")) {
      return no("'}+', possessive in one dialect and not in the other");
    }
    out += c;
  }
  return out;
}

}  // namespace millrace::text
