// Filters over single values: numbers, defaults, attributes, JSON.

#include <charconv>
#include <cmath>

#include "text/jinja/arithmetic.h"
#include "text/jinja/filters.h"
#include "text/jinja/params.h"
#include "text/jinja/print.h"
#include "text/jinja/str_tools.h"

namespace millrace::text::jinja {
namespace {

Value abs_of(Workspace&, const Value& value, Args& args) {
  const Params p("abs", args, {});
  if (!defined(value).is_number()) raise("bad operand type for abs(): '{}'", type_name(value));
  if (value.is(Kind::real)) return Value(std::abs(value.number()));
  return value.integer() < 0 ? negate(value) : Value(value.integer());
}

Value attr(Workspace& ws, const Value& value, Args& args) {
  const Params p("attr", args, {"name"}, 1);
  const std::string_view name = p.string(0).bytes();
  if (auto found = own_attribute(ws, defined(value), name)) return *found;
  return ws.undefined("'{} object' has no attribute '{}'", type_name(value), name);
}

Value default_of(Workspace& ws, const Value& value, Args& args) {
  const Params p("default", args, {"default_value", "boolean"});
  const bool use = value.is_undefined() || (p.flag(1, false) && !truth(value));
  return !use ? value : p.has(0) ? p[0] : ws.text(Text());
}

/// A number as Python's int() and float() read it: blanks around, a sign, underscores between digits.
std::string without_underscores(Workspace& ws, const Value& value) {
  const Value inner = stripped(ws, value, nullptr);
  std::string out;
  const std::string_view bytes = inner.bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool between = i > 0 && i + 1 < bytes.size() && std::isalnum(static_cast<unsigned char>(bytes[i - 1])) != 0 &&
                         std::isalnum(static_cast<unsigned char>(bytes[i + 1])) != 0;
    if (bytes[i] != '_' || !between) out += bytes[i];
  }
  return out;
}

std::optional<std::int64_t> parse_integer(Workspace& ws, const Value& value, std::int64_t base) {
  std::string digits = without_underscores(ws, value);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    const std::int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) base = marked, digits.erase(0, 2);
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || digits.empty() || digits[0] == '-') return std::nullopt;
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, static_cast<int>(base));
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (error != std::errc() || size > static_cast<std::uint64_t>(INT64_MAX)) raise("the integer {} does not fit into 64 bits", value.bytes());
  return negative ? -static_cast<std::int64_t>(size) : static_cast<std::int64_t>(size);
}

std::optional<double> parse_real(Workspace& ws, const Value& value) {
  std::string digits = without_underscores(ws, value);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || end != digits.data() + digits.size() || digits.find('(') != digits.npos) return std::nullopt;
  if (error == std::errc::result_out_of_range) number = std::strtod(digits.c_str(), nullptr);
  return number;
}

std::optional<double> to_real(Workspace& ws, const Value& value) {
  if (value.is_number()) return value.number();
  return value.is_string() ? parse_real(ws, value) : std::nullopt;
}

Value int_of(Workspace& ws, const Value& value, Args& args) {
  const Params p("int", args, {"default", "base"});
  defined(value);
  if (value.is_integral()) return Value(value.integer());
  if (value.is_string()) {
    if (const auto whole = parse_integer(ws, value, p.integer(1, 10))) return Value(*whole);
  }
  const auto real = to_real(ws, value);
  if (!real || !std::isfinite(*real)) return p.get(0, Value(std::int64_t{0}));
  if (!(std::abs(*real) < 0x1p63)) raise("the number {} does not fit into 64 bits", print_real(*real));
  return Value(static_cast<std::int64_t>(*real));
}

Value float_of(Workspace& ws, const Value& value, Args& args) {
  const Params p("float", args, {"default"});
  const auto real = to_real(ws, defined(value));
  return real ? Value(*real) : p.get(0, Value(0.0));
}

Value round_of(Workspace&, const Value& value, Args& args) {
  const Params p("round", args, {"precision", "method"});
  const std::string_view method = p.has(1) ? p.string(1).bytes() : "common";
  const std::int64_t precision = p.integer(0, 0);
  if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
  if (!defined(value).is_number()) raise("type {} doesn't define __round__ method", type_name(value));
  if (precision > 400 || precision < -400) return value;
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.number() * scale;
  if (method != "common") return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  if (value.is_integral() && precision >= 0) return Value(value.integer());
  if (precision < 0) {  // halves go to the even neighbour
    const double rounded = std::nearbyint(scaled) / scale;
    if (value.is(Kind::real)) return Value(rounded);
    if (!(std::abs(rounded) < 0x1p63)) raise("the number {} does not fit into 64 bits", print_real(rounded));
    return Value(static_cast<std::int64_t>(rounded));
  }
  if (!std::isfinite(value.number())) return value;
  return Value(std::strtod(fmt::format("{:.{}f}", value.number(), precision).c_str(), nullptr));
}

Value filesizeformat(Workspace& ws, const Value& value, Args& args) {
  const Params p("filesizeformat", args, {"binary"});
  const auto real = to_real(ws, defined(value));
  if (!real) raise("could not convert {} to float", type_name(value));
  const bool binary = p.flag(0, false);
  const double base = binary ? 1024 : 1000;
  const std::string_view unit = binary ? "iB" : "B";
  if (*real == 1) return ws.text("1 Byte", Origin::caller);
  if (*real < base) return ws.text(fmt::format("{:.0f} Bytes", std::trunc(*real)), Origin::caller);
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double size = *real / base;
  std::size_t i = 0;
  while (size >= base && i + 1 < kPrefixes.size()) size /= base, ++i;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return ws.text(fmt::format("{:.1f} {}{}", size, prefix, unit), Origin::caller);
}

Value tojson(Workspace& ws, const Value& value, Args& args) {
  const Params p("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = p.flag(0, false);
  style.sort_keys = p.flag(3, false);
  if (p.has_some(1)) {
    TextBuilder one(ws);
    if (p[1].is_string()) one.add(p[1].text());
    else one.add_repeated(Text(" ", Origin::caller), static_cast<std::size_t>(std::max<std::int64_t>(p.integer(1, 0), 0)));
    style.indent = one.take();
  }
  style.item_separator = Text(style.indent ? "," : ", ", Origin::caller);
  style.key_separator = Text(": ", Origin::caller);
  if (p.has_some(2)) {
    const auto pair = items_of(ws, p[2]);
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) raise("tojson() needs two strings as separators");
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  TextBuilder out(ws);
  write_json(out, ws, value, style);
  return out.value();
}

constexpr MethodEntry kFilters[] = {
    {"abs", abs_of}, {"attr", attr}, {"d", default_of}, {"default", default_of}, {"filesizeformat", filesizeformat},
    {"float", float_of}, {"int", int_of}, {"pprint", nullptr}, {"round", round_of}, {"tojson", tojson}};

}  // namespace

std::span<const MethodEntry> value_filters() { return kFilters; }

}  // namespace millrace::text::jinja
