#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
int hex_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// \r\n and \r become \n; one newline at the very end goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') { out += source[i]; continue; }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

/// The value of a string literal's inside, escapes as in Python. \N{...} is not known here.
std::string unescaped(std::string_view raw, int line) {
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) { out += raw[i]; continue; }
    const char c = raw[++i];
    constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    if (c == '\n') continue;
    if (const auto simple = kFrom.find(c); simple != kFrom.npos) { out += kTo[simple]; continue; }
    if (c == 'N') raise_syntax(line, "the escape \\N{{...}} in a string is not supported");
    char32_t code = 0;
    std::size_t digits = 0;
    if (c >= '0' && c <= '7') {
      for (; digits < 3 && i + digits < raw.size() && raw[i + digits] >= '0' && raw[i + digits] <= '7'; ++digits)
        code = code * 8 + static_cast<char32_t>(raw[i + digits] - '0');
      i += digits - 1;
    } else if (const std::size_t wanted = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0; wanted > 0) {
      for (; digits < wanted && i + 1 + digits < raw.size() && hex_value(raw[i + 1 + digits]) >= 0; ++digits)
        code = code * 16 + static_cast<char32_t>(hex_value(raw[i + 1 + digits]));
      if (digits < wanted) raise_syntax(line, "the escape \\{} in a string needs {} hexadecimal digits", c, wanted);
      if (code > 0x10FFFF) raise_syntax(line, "the escape \\{} in a string is beyond U+10FFFF", c);
      i += digits;
    } else {
      out += '\\', out += c;  // Python keeps an unknown escape as it is
      continue;
    }
    append_utf8(out, code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code);
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), at_line_start_(true) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) root();
    push(Token::Kind::eof, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest(std::size_t from) const { return std::string_view(source_).substr(std::min(from, source_.size())); }

  void push(Token::Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void advance_to(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    pos_ = end;
  }

  std::size_t skip_space(std::size_t at) const {
    while (at < source_.size()) {
      const Char c = char_at(source_, at);
      if (!is_space(c.code)) break;
      at = c.end;
    }
    return at;
  }

  /// Where text goes on after the end of a tag at `at`: "-%}" eats white space, "%}" one newline, "+%}" nothing.
  /// 0 when there is no such end.
  std::size_t tag_end(std::size_t at, std::string_view close, bool trim_newline) const {
    const std::string_view here = rest(at);
    if (here.starts_with(close)) {
      const std::size_t end = at + close.size();
      return trim_newline && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
    }
    if (here.size() > close.size() && here.substr(1).starts_with(close)) {
      if (here[0] == '-') return skip_space(at + 1 + close.size());
      if (here[0] == '+' && trim_newline) return at + 1 + close.size();
    }
    return 0;
  }

  void finish_tag(std::size_t end) {
    advance_to(end);
    at_line_start_ = end > 0 && source_[end - 1] == '\n';
  }

  /// The text before a tag, cut as the tag's sign says.
  void push_data(std::size_t end, char sign, bool strip_blanks) {
    std::string_view data = std::string_view(source_).substr(pos_, end - pos_);
    if (sign == '-') {
      while (!data.empty()) {
        const std::size_t last = char_before(data, data.size());
        if (!is_space(char_at(data, last).code)) break;
        data = data.substr(0, last);
      }
    } else if (sign != '+' && strip_blanks) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t line = newline == data.npos ? 0 : newline + 1;
      if (line > 0 || at_line_start_) {
        std::size_t at = line;
        while (at < data.size() && is_space(char_at(data, at).code)) at = char_at(data, at).end;
        if (at == data.size()) data = data.substr(0, line);
      }
    }
    if (!data.empty()) push(Token::Kind::data, std::string(data));
    advance_to(end);
  }

  void root() {
    std::size_t tag = pos_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == source_.npos || tag + 1 == source_.size()) return push_data(source_.size(), '+', false);
      if (source_[tag + 1] == '%' || source_[tag + 1] == '{' || source_[tag + 1] == '#') break;
    }
    const char kind = source_[tag + 1];
    const std::size_t inside = tag + 2;
    const char sign = inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+') ? source_[inside] : ' ';
    const std::size_t body = sign == ' ' ? inside : inside + 1;
    push_data(tag, sign, kind != '{');
    if (kind == '#') return comment(body);
    if (kind == '%') {
      if (const std::size_t raw = keyword_tag(body, "raw", false); raw > 0) return raw_block(raw);
    }
    push(kind == '%' ? Token::Kind::block_begin : Token::Kind::variable_begin, "");
    advance_to(body);
    expression(kind == '%');
  }

  void comment(std::size_t body) {
    const std::size_t close = source_.find("#}", body);
    if (close == source_.npos) raise_syntax(line_, "missing end of comment tag");
    const bool sign = close > body && (source_[close - 1] == '-' || source_[close - 1] == '+');
    finish_tag(tag_end(sign ? close - 1 : close, "#}", true));
  }

  /// The end of `{% word %}` whose inside starts at `at`, or 0.
  std::size_t keyword_tag(std::size_t at, std::string_view word, bool trim_newline) const {
    at = skip_space(at);
    if (!rest(at).starts_with(word)) return 0;
    at = skip_space(at + word.size());
    if (!trim_newline && rest(at).starts_with('+')) return 0;
    return tag_end(at, "%}", trim_newline);
  }

  void raw_block(std::size_t body) {
    const int opened = line_;
    finish_tag(body);
    for (std::size_t tag = source_.find("{%", pos_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const char next = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      const char sign = next == '-' || next == '+' ? next : ' ';
      const std::size_t end = keyword_tag(tag + (sign == ' ' ? 2 : 3), "endraw", true);
      if (end == 0) continue;
      push_data(tag, sign, true);
      return finish_tag(end);
    }
    raise_syntax(opened, "missing end of raw directive");
  }

  void expression(bool block) {
    std::string open;  // the closing brackets still owed
    while (true) {
      if (pos_ >= source_.size()) return;  // the parser reports the missing end
      if (open.empty()) {
        if (const std::size_t end = tag_end(pos_, block ? "%}" : "}}", block); end > 0) {
          push(block ? Token::Kind::block_end : Token::Kind::variable_end, "");
          return finish_tag(end);
        }
      }
      const Char c = char_at(source_, pos_);
      if (is_space(c.code)) advance_to(skip_space(pos_));
      else if (c.code < 0x80 && is_ascii_digit(source_[pos_])) number();
      else if (is_word(c.code)) name();
      else if (c.code == '\'' || c.code == '"') string();
      else op(open);
    }
  }

  void name() {
    std::size_t end = pos_;
    while (end < source_.size() && is_word(char_at(source_, end).code)) end = char_at(source_, end).end;
    const char32_t first = char_at(source_, pos_).code;
    if (first != '_' && !is_alpha(first)) raise_syntax(line_, "invalid character in identifier");
    push(Token::Kind::name, source_.substr(pos_, end - pos_));
    pos_ = end;
  }

  void string() {
    const char quote = source_[pos_];
    std::size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) raise_syntax(line_, "a string that starts with {} has no end", quote);
    push(Token::Kind::string, unescaped(rest(pos_ + 1).substr(0, end - pos_ - 1), line_));
    advance_to(end + 1);
  }

  /// digits, with single underscores between them; the offset behind.
  std::size_t digits(std::size_t at, int base) const {
    const auto digit = [&](std::size_t i) { return i < source_.size() && hex_value(source_[i]) >= 0 && hex_value(source_[i]) < base; };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }

  void number() {
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';  // a.0.1 is two subscripts
    const std::size_t whole = digits(pos_, 10);
    std::size_t end = whole;
    if (!after_dot) {
      if (rest(end).starts_with('.') && end + 1 < source_.size() && is_ascii_digit(source_[end + 1])) end = digits(end + 1, 10);
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        std::size_t power = end + 1;
        if (power < source_.size() && (source_[power] == '+' || source_[power] == '-')) ++power;
        if (power < source_.size() && is_ascii_digit(source_[power])) end = digits(power, 10);
      }
    }
    if (end > whole) return real(end);
    int base = 10;
    std::size_t begin = pos_;
    if (source_[pos_] == '0' && pos_ + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[pos_ + 1] | 0x20);
      const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      const std::size_t first = rest(pos_ + 2).starts_with('_') ? pos_ + 3 : pos_ + 2;
      if (marked != 10 && first < source_.size() && hex_value(source_[first]) >= 0 && hex_value(source_[first]) < marked)
        base = marked, begin = first;
    }
    end = digits(begin, base);
    if (base == 10 && source_[pos_] == '0') end = digits(begin, 1);  // 012 is 0, then 12
    const std::string plain = without_underscores(begin, end);
    Token token{Token::Kind::integer, line_, plain};
    if (std::from_chars(plain.data(), plain.data() + plain.size(), token.integer, base).ec != std::errc())
      raise_syntax(line_, "the integer {} does not fit into 64 bits", plain);
    tokens_.push_back(std::move(token));
    pos_ = end;
  }

  void real(std::size_t end) {
    const std::string plain = without_underscores(pos_, end);
    Token token{Token::Kind::real, line_, plain};
    if (std::from_chars(plain.data(), plain.data() + plain.size(), token.real).ec != std::errc())
      raise_syntax(line_, "the number {} does not fit into a double", plain);
    tokens_.push_back(std::move(token));
    pos_ = end;
  }

  std::string without_underscores(std::size_t begin, std::size_t end) const {
    std::string plain = source_.substr(begin, end - begin);
    std::erase(plain, '_');
    return plain;
  }

  void op(std::string& open) {
    constexpr std::array kTwo = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    const std::string_view here = rest(pos_);
    std::size_t length = 0;
    for (const char* two : kTwo) if (here.starts_with(two)) length = 2;
    if (length == 0 && kOne.find(here[0]) != kOne.npos) length = 1;
    if (length == 0) raise_syntax(line_, "unexpected character '{}'", here.substr(0, char_at(source_, pos_).end - pos_));
    const std::string_view text = here.substr(0, length);
    if (text == "(") open += ')';
    else if (text == "[") open += ']';
    else if (text == "{") open += '}';
    else if (text == ")" || text == "]" || text == "}") {
      if (open.empty()) raise_syntax(line_, "unexpected '{}'", text);
      if (open.back() != text[0]) raise_syntax(line_, "unexpected '{}', expected '{}'", text, open.back());
      open.pop_back();
    }
    push(Token::Kind::op, std::string(text));
    pos_ += length;
  }

  std::string source_;
  std::size_t pos_ = 0;
  int line_ = 1;
  bool at_line_start_;  // the last tag ended with a newline, or there was none
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::data: return "template text";
    case Token::Kind::variable_begin: return "'{{'";
    case Token::Kind::variable_end: return "end of print statement";
    case Token::Kind::block_begin: return "'{%'";
    case Token::Kind::block_end: return "end of statement block";
    case Token::Kind::string: return "a string";
    case Token::Kind::eof: return "end of template";
    default: return "'" + token.text + "'";
  }
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace millrace::text::jinja
