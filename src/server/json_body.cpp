#include "server/json_body.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/utf8.h"

namespace millrace::server {
namespace {

using text::Json;

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Reads text into a tree without recursion: open arrays and objects stand on a stack of kMostDepth. Members are appended
/// unseen, which makes an object of n of them n steps instead of n^2; that none is there twice is looked at once it is closed.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<Json> read() {
    if (skip_blanks(); at_end()) return error(Code::invalid_argument, "the body is empty, expected a JSON object");
    if (peek() != '{') return unexpected("a JSON object");
    while (!done_) MILLRACE_TRY_VOID(step());
    if (skip_blanks(); !at_end()) return unexpected("nothing behind the JSON object");
    return std::move(root_);
  }

 private:
  struct Open {
    Json value;       // array or object
    std::string key;  // of the member that is read
    bool first = true;
  };

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return text_[at_]; }
  bool take(char c) { return !at_end() && peek() == c && (++at_, true); }
  void skip_blanks() {
    while (!at_end() && is_blank(peek())) ++at_;
  }

  Error unexpected(std::string_view expected) const {
    if (at_end()) return error(Code::invalid_argument, "not JSON: the body ends at byte {}, expected {}", at_, expected);
    const int length = decode_utf8(text_.substr(at_)).length;
    return error(Code::invalid_argument, "not JSON: byte {} is {}, expected {}", at_, json_char(text_.substr(at_, static_cast<std::size_t>(length))), expected);
  }
  static std::string json_char(std::string_view c) {
    if (static_cast<unsigned char>(c[0]) < 0x20 || c[0] == 0x7F) return fmt::format("0x{:02x}", static_cast<unsigned>(c[0]));
    return fmt::format("'{}'", c);
  }

  /// One value, or the opening or closing of one.
  Result<void> step() {
    skip_blanks();
    if (open_.empty()) return read_value();
    Open& inner = open_.back();
    const bool is_object = inner.value.is_object();
    if (take(is_object ? '}' : ']')) return close();
    if (!inner.first) {
      if (!take(',')) return unexpected(is_object ? "',' or '}'" : "',' or ']'");
      skip_blanks();
    }
    inner.first = false;
    if (is_object) {
      if (at_end() || peek() != '"') return unexpected("a key in quotes");
      MILLRACE_TRY(key, read_string());
      inner.key = std::move(key);
      skip_blanks();
      if (!take(':')) return unexpected("':'");
      skip_blanks();
    }
    return read_value();
  }

  Result<void> read_value() {
    if (++values_ > kMostValues) return error(Code::invalid_argument, "the body has more than {} JSON values", kMostValues);
    if (at_end()) return unexpected("a value");
    const char c = peek();
    if (c == '{' || c == '[') {
      if (open_.size() == static_cast<std::size_t>(kMostDepth)) return error(Code::invalid_argument, "byte {}: JSON nested deeper than {} levels", at_, kMostDepth);
      ++at_;
      open_.push_back({c == '{' ? Json::object() : Json::array(), {}});
      return {};
    }
    if (c == '"') {
      MILLRACE_TRY(string, read_string());
      return add(Json(std::move(string)));
    }
    if (c == '-' || is_digit(c)) {
      MILLRACE_TRY(number, read_number());
      return add(std::move(number));
    }
    if (take_word("true")) return add(true);
    if (take_word("false")) return add(false);
    if (take_word("null")) return add(nullptr);
    return unexpected("a value");
  }

  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Result<void> add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      done_ = true;
      return {};
    }
    Open& outer = open_.back();
    if (outer.value.is_object()) outer.value.get_ref<Json::object_t&>().emplace_back(std::move(outer.key), std::move(value));
    else outer.value.get_ref<Json::array_t&>().push_back(std::move(value));
    return {};
  }

  Result<void> close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    if (value.is_object()) MILLRACE_TRY_VOID(check_keys(value));
    return add(std::move(value));
  }

  static Result<void> check_keys(const Json& object) {
    std::vector<std::string_view> keys;
    keys.reserve(object.size());
    for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) keys.emplace_back(key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice == keys.end()) return {};
    constexpr std::size_t kShown = 60;
    return error(Code::invalid_argument, "the key '{}' stands twice in one JSON object", repair_utf8(twice->substr(0, kShown)));
  }

  Result<std::string> read_string() {
    const std::size_t start = at_++;
    std::string out;
    while (true) {
      std::size_t end = at_;
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' && static_cast<unsigned char>(text_[end]) >= 0x20) ++end;
      out.append(text_, at_, end - at_);
      at_ = end;
      if (at_end()) return error(Code::invalid_argument, "not JSON: the string that starts at byte {} has no end", start);
      if (take('"')) return out;
      if (!take('\\')) return unexpected("no control character in a string");
      MILLRACE_TRY_VOID(read_escape(out));
    }
  }

  Result<void> read_escape(std::string& out) {
    constexpr std::string_view kShort = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    if (take('u')) return read_unicode_escape(out);
    const std::size_t which = at_end() ? std::string_view::npos : kShort.find(peek());
    if (which == std::string_view::npos) return unexpected("an escape: one of \" \\ / b f n r t u");
    out += kMeant[which];
    ++at_;
    return {};
  }

  /// O8.3: half a surrogate pair is no character, and nothing that comes later could say so to the client.
  Result<void> read_unicode_escape(std::string& out) {
    const std::size_t start = at_ - 2;
    MILLRACE_TRY(first, read_hex4());
    char32_t code_point = first;
    if (first >= 0xD800 && first <= 0xDFFF) {
      const auto lone = [&] { return error(Code::invalid_argument, "byte {}: the escape \\u{:04x} is half a surrogate pair", start, static_cast<unsigned>(first)); };
      if (first >= 0xDC00 || !take('\\') || !take('u')) return lone();
      MILLRACE_TRY(second, read_hex4());
      if (second < 0xDC00 || second > 0xDFFF) return lone();
      code_point = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    }
    append_utf8(out, code_point);
    return {};
  }

  Result<char32_t> read_hex4() {
    unsigned value = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 4 || failed != std::errc() || end != digits.data() + 4) return unexpected("four hexadecimal digits");
    at_ += 4;
    return static_cast<char32_t>(value);
  }

  Result<Json> read_number() {
    const std::size_t start = at_;
    bool is_integer = true;
    take('-');
    if (at_end() || !is_digit(peek())) return unexpected("a digit");
    if (take('0')) {
      if (!at_end() && is_digit(peek())) return unexpected("no digit behind a leading 0");
    } else {
      skip_digits();
    }
    if (take('.')) {
      is_integer = false;
      if (at_end() || !is_digit(peek())) return unexpected("a digit");
      skip_digits();
    }
    if (take('e') || take('E')) {
      is_integer = false;
      take('+') || take('-');
      if (at_end() || !is_digit(peek())) return unexpected("a digit");
      skip_digits();
    }
    return number_of(text_.substr(start, at_ - start), is_integer, start);
  }

  void skip_digits() {
    while (!at_end() && is_digit(peek())) ++at_;
  }

  static Result<Json> number_of(std::string_view digits, bool is_integer, std::size_t start) {
    const char *first = digits.data(), *last = first + digits.size();
    if (is_integer) {
      std::int64_t whole = 0;
      if (std::from_chars(first, last, whole).ec == std::errc()) return Json(whole);
      std::uint64_t large = 0;
      if (digits[0] != '-' && std::from_chars(first, last, large).ec == std::errc()) return Json(large);
    }
    double value = 0;
    // from_chars says the same of what is too large and of what is too close to 0; the latter is 0 here.
    if (std::from_chars(first, last, value).ec != std::errc()) value = std::strtod(std::string(digits).c_str(), nullptr);
    if (std::isinf(value)) return error(Code::invalid_argument, "byte {}: the number is out of the range of a double", start);
    return Json(value);
  }

  std::string_view text_;
  std::size_t at_ = 0, values_ = 0;
  std::vector<Open> open_;
  Json root_;
  bool done_ = false;
};

}  // namespace

Result<Json> parse_body(std::string_view body) {
  for (std::size_t at = 0; at < body.size();) {
    if (static_cast<unsigned char>(body[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = decode_utf8(body.substr(at));
    if (step.kind != Utf8Step::Kind::character) return error(Code::invalid_argument, "byte {} of the body is not valid UTF-8", at);
    at += static_cast<std::size_t>(step.length);
  }
  return Reader(body).read();
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace millrace::server
