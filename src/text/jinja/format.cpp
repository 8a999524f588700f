#include "text/jinja/format.h"

#include <cctype>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/access.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/compare.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

constexpr Origin kOurs = Origin::caller;
constexpr std::int64_t kMaxPrecision = 1000;  // digits; a double has at most 1074 that mean something

std::string grouped(const std::string& digits, char separator, std::size_t group) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

/// Digits of a finite |value| for e, f, g and for no type at all with a precision.
std::string real_digits(double value, const FormatSpec& spec) {
  const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
  const bool alternate = spec.alternate;
  switch (spec.type) {
    case 'e': return alternate ? fmt::format("{:#.{}e}", value, precision) : fmt::format("{:.{}e}", value, precision);
    case 'f':
    case '%': return alternate ? fmt::format("{:#.{}f}", value, precision) : fmt::format("{:.{}f}", value, precision);
    case 'g':
    case 'n': return alternate ? fmt::format("{:#.{}g}", value, precision) : fmt::format("{:.{}g}", value, precision);
    default: break;
  }
  if (spec.precision < 0) return print_real(value);
  // No type: like g, but never without a fraction or an exponent, and one digit sooner with an exponent.
  const int digits = std::max(precision, 1);
  std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int power = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (power < -4 || power >= digits - 1) {
    const std::size_t e = scientific.find('e');
    std::string mantissa = scientific.substr(0, e);
    if (mantissa.find('.') != mantissa.npos) mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.ends_with('.')) mantissa.pop_back();
    return mantissa + scientific.substr(e);
  }
  std::string plain = fmt::format("{:.{}g}", value, digits);
  return plain.find('.') == plain.npos ? plain + ".0" : plain;
}

void write_number(TextBuilder& out, bool negative, std::string_view prefix, std::string digits, const FormatSpec& spec) {
  std::string lead = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  lead += prefix;
  if (spec.grouping != 0) {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
    const bool hex = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b';
    digits = grouped(digits.substr(0, whole), spec.grouping, hex ? 4 : 3) + digits.substr(whole);
  }
  if (spec.align != '=') return write_padded(out, Text(lead + digits, kOurs), spec, '>');
  out.add(lead, kOurs);
  FormatSpec rest = spec;
  rest.align = '>';
  rest.width = spec.width - static_cast<std::int64_t>(lead.size());
  write_padded(out, Text(digits, kOurs), rest, '>');
}

void write_integer(TextBuilder& out, const Value& value, const FormatSpec& spec) {
  const std::int64_t n = value.integer();
  const std::uint64_t size = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
  if (spec.precision >= 0) raise("Precision not allowed in integer format specifier");
  switch (spec.type) {
    case 'x': return write_number(out, n < 0, spec.alternate ? "0x" : "", fmt::format("{:x}", size), spec);
    case 'X': return write_number(out, n < 0, spec.alternate ? "0X" : "", fmt::format("{:X}", size), spec);
    case 'o': return write_number(out, n < 0, spec.alternate ? "0o" : "", fmt::format("{:o}", size), spec);
    case 'b': return write_number(out, n < 0, spec.alternate ? "0b" : "", fmt::format("{:b}", size), spec);
    case 'c': {
      if (n < 0 || n > 0x10FFFF || (n >= 0xD800 && n <= 0xDFFF)) raise("%c arg not in range(0x110000)");
      std::string character;
      append_utf8(character, static_cast<char32_t>(n));
      return write_padded(out, Text(character, kOurs), spec, '<');
    }
    default: return write_number(out, n < 0, "", std::to_string(size), spec);
  }
}

void write_real(TextBuilder& out, double value, FormatSpec spec) {
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (upper) spec.type = static_cast<char>(std::tolower(spec.type));
  if (spec.type == '%') value *= 100;
  const bool negative = std::signbit(value) && !std::isnan(value);
  std::string digits = std::isnan(value) ? "nan" : std::isinf(value) ? "inf" : real_digits(std::abs(value), spec);
  if (spec.type == '%') digits += '%';
  if (upper) for (char& c : digits) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  write_number(out, negative, "", digits, spec);
}

/// `%` formatting, one conversion at a time.
class PercentFormat {
 public:
  PercentFormat(Workspace& ws, const Value& format, const Value& values)
      : ws_(ws), format_(format.text()), markup_(format.is_markup()), values_(values), out_(ws) {}

  Value run() {
    const std::string_view bytes = format_.bytes();
    std::size_t done = 0;
    while ((at_ = bytes.find('%', done)) != bytes.npos) {
      out_.add(format_, done, at_++);
      conversion();
      done = at_;
    }
    out_.add(format_, done, bytes.size());
    // What has subscripts may have unused ones.
    const bool mapping = values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) || values_.is_undefined();
    const std::size_t given = values_.is(Kind::tuple) ? values_.as<Sequence>().items.size() : 1;
    if (!mapping && used_ < given) raise("not all arguments converted during string formatting");
    return out_.value(markup_);
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) raise("incomplete format");
    return format_.bytes()[at_];
  }

  const Value& next() {
    if (!values_.is(Kind::tuple)) {
      if (used_++ > 0) raise("not enough arguments for format string");
      return values_;
    }
    const auto& items = values_.as<Sequence>().items;
    if (used_ >= items.size()) raise("not enough arguments for format string");
    return items[used_++];
  }

  std::int64_t count() {
    if (peek() == '*') {
      ++at_;
      const Value& value = next();
      if (!value.is_integral()) raise("* wants int");
      if (value.integer() > INT32_MAX || value.integer() < -INT32_MAX) raise("width too big");
      return value.integer();
    }
    std::int64_t n = 0;
    while (peek() >= '0' && peek() <= '9') {
      n = n * 10 + (format_.bytes()[at_++] - '0');
      if (n > INT32_MAX) raise("width too big");
    }
    return n;
  }

  void conversion() {
    FormatSpec spec;
    Value keyed;
    const Value* value = nullptr;
    if (peek() == '(') {
      const std::size_t close = format_.bytes().find(')', at_);
      if (close == std::string_view::npos) raise("incomplete format key");
      if (!values_.is(Kind::dict)) raise("format requires a mapping");
      const std::string_view key = format_.bytes().substr(at_ + 1, close - at_ - 1);
      value = find_text(values_.as<Dict>(), key);
      if (value == nullptr) raise("KeyError: '{}'", key);
      at_ = close + 1;
    }
    bool zero = false;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-') spec.align = '<';
      else if (c == '0') zero = true;
      else if (c == '#') spec.alternate = true;
      else if (c == '+') spec.sign = '+';
      else if (c == ' ') spec.sign = spec.sign == '+' ? '+' : ' ';
      else break;
    }
    spec.width = count();
    if (spec.width < 0) spec.align = '<', spec.width = -spec.width;
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<std::int64_t>(count(), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    const char type = peek();
    ++at_;
    if (type == '%') return out_.add("%", kOurs);
    convert(type, value != nullptr ? *value : next(), spec, zero);
  }

  void convert(char type, const Value& value, FormatSpec spec, bool zero) {
    if (type == 's' || type == 'r' || type == 'a') {
      TextBuilder text(ws_);
      if (type == 's') text.add(markup_ ? escaped(ws_, value).text() : to_text(ws_, value).text());
      else write_repr(text, ws_, value);
      spec.type = 's';
      if (spec.align == 0) spec.align = '>';
      return write_formatted(out_, text.value(), spec);
    }
    if (type == 'c' && value.is_string()) {
      if (value.str()->chars != 1) raise("%c requires int or char");
      return write_padded(out_, value.text(), spec, '>');
    }
    if (std::string_view("diuoxXeEfFgGc").find(type) == std::string_view::npos) raise("unsupported format character '{}'", type);
    if (value.is_undefined()) raise("{}", value.as<Undefined>().why);
    if (!value.is_number()) raise("%{} format: a real number is required, not {}", type, type_name(value));
    if (zero && spec.align == 0) spec.align = '=', spec.fill = Text("0", kOurs);
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      if (spec.precision < 0) spec.precision = 6;
      return write_formatted(out_, Value(value.number()), spec);
    }
    Value whole = value;
    if (value.is(Kind::real)) {
      if (spec.type != 'd') raise("%{} format: an integer is required, not float", type);
      if (!(std::abs(value.number()) < 0x1p63)) raise("cannot convert float {} to integer", print_real(value.number()));
      whole = Value(static_cast<std::int64_t>(value.number()));
    }
    spec.precision = -1;
    write_formatted(out_, whole, spec);
  }

  Workspace& ws_;
  const Text& format_;
  bool markup_;
  const Value& values_;
  TextBuilder out_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

void write_padded(TextBuilder& out, const Text& text, const FormatSpec& spec, char own_align) {
  const std::int64_t missing = spec.width - static_cast<std::int64_t>(count_chars(text.bytes()));
  const std::size_t pad = missing > 0 ? static_cast<std::size_t>(missing) : 0;
  const char align = spec.align == 0 ? own_align : spec.align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
  out.add_repeated(spec.fill, left);
  out.add(text);
  out.add_repeated(spec.fill, pad - left);
}

void write_formatted(TextBuilder& out, const Value& value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision && value.is_number()) raise_limit("a precision of {} exceeds the limit of {}", spec.precision, kMaxPrecision);
  const bool real_type = std::string_view("eEfFgGn%").find(spec.type) != std::string_view::npos && spec.type != 0;
  if (value.is_string()) {
    if (spec.type != 0 && spec.type != 's') raise("Unknown format code '{}' for object of type 'str'", spec.type);
    if (spec.align == '=') raise("'=' alignment not allowed in string format specifier");
    if (spec.sign != '-') raise("Sign not allowed in string format specifier");
    const bool cut = spec.precision >= 0 && static_cast<std::uint64_t>(spec.precision) < value.str()->chars;
    const std::size_t end = cut ? byte_of_char(value.bytes(), static_cast<std::size_t>(spec.precision)) : value.text().size();
    return write_padded(out, value.text().slice(0, end), spec, '<');
  }
  if (value.is_integral() && !(real_type && spec.type != 'n')) {
    if (spec.type != 0 && std::string_view("dxXobcn").find(spec.type) == std::string_view::npos)
      raise("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
    return write_integer(out, value, spec);
  }
  if (value.is_number()) {
    if (spec.type != 0 && !real_type) raise("Unknown format code '{}' for object of type 'float'", spec.type);
    return write_real(out, value.number(), spec);
  }
  raise("unsupported format string passed to {}.__format__", type_name(value));
}

Value percent_format(Workspace& ws, const Value& format, const Value& values) { return PercentFormat(ws, format, values).run(); }

}  // namespace millrace::text::jinja
