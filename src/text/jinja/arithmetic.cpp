#include "text/jinja/arithmetic.h"

#include <cmath>

#include "text/jinja/print.h"

namespace millrace::text::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void raise_overflow() { raise("an integer result does not fit into 64 bits"); }

Value integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {  // at most 63 rounds: by squaring
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) raise_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) raise_overflow();
  }
  return Value(result);
}

Value integers(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &result)) raise_overflow();
      return Value(result);
    case Op::subtract:
      if (__builtin_sub_overflow(a, b, &result)) raise_overflow();
      return Value(result);
    case Op::multiply:
      if (__builtin_mul_overflow(a, b, &result)) raise_overflow();
      return Value(result);
    case Op::divide:
      if (b == 0) raise("division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case Op::floor_divide:
    case Op::modulo: {
      if (b == 0) raise("integer division or modulo by zero");
      if (b == -1) {  // INT64_MIN / -1 overflows
        if (op == Op::modulo) return Value(std::int64_t{0});
        return negate(Value(a));
      }
      const std::int64_t rest = a % b;
      const bool down = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down, C++ towards zero
      return op == Op::modulo ? Value(down ? rest + b : rest) : Value(down ? a / b - 1 : a / b);
    }
    case Op::power:
      if (b >= 0) return integer_power(a, b);
      if (a == 0) raise("0.0 cannot be raised to a negative power");
      return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  raise("unknown operator");
}

Value reals(Op op, double a, double b) {
  switch (op) {
    case Op::add: return Value(a + b);
    case Op::subtract: return Value(a - b);
    case Op::multiply: return Value(a * b);
    case Op::divide:
      if (b == 0) raise("float division by zero");
      return Value(a / b);
    case Op::floor_divide:
    case Op::modulo: {
      if (b == 0) raise("float {}", op == Op::modulo ? "modulo" : "floor division by zero");
      double rest = std::fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      if (op == Op::modulo) return Value(rest == 0 ? std::copysign(0.0, b) : rest);
      const double whole = (a - rest) / b, floored = std::floor(whole);
      return Value(whole == 0 ? std::copysign(0.0, a / b) : whole - floored > 0.5 ? floored + 1 : floored);
    }
    case Op::power: {
      if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) raise("a complex number is no value here");
      if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) raise("a power is too large for a double");
      return Value(result);
    }
  }
  raise("unknown operator");
}

Value repeated(Workspace& ws, const Value& what, std::int64_t times) {
  const std::size_t n = times < 0 ? 0 : static_cast<std::size_t>(times);
  if (what.is_string()) {
    TextBuilder out(ws);
    out.add_repeated(what.text(), n);
    return out.value(what.is_markup());
  }
  const auto& items = what.as<Sequence>().items;
  if (items.empty()) return ws.sequence(what.kind(), {});
  for (std::size_t i = 0; i < n; ++i) {
    ws.spend(items.size());
    if (i * items.size() * sizeof(Value) > ws.max_bytes()) raise_limit("a repeated list exceeds the limit of {} bytes", ws.max_bytes());
  }
  std::vector<Value> out;
  for (std::size_t i = 0; i < n; ++i) out.insert(out.end(), items.begin(), items.end());
  return ws.sequence(what.kind(), std::move(out));
}

Value added(Workspace& ws, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    const bool markup = a.is_markup() || b.is_markup();
    TextBuilder out(ws);
    out.add(markup ? escaped(ws, a).text() : a.text());
    out.add(markup ? escaped(ws, b).text() : b.text());
    return out.value(markup);
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    std::vector<Value> items = a.as<Sequence>().items;
    const auto& more = b.as<Sequence>().items;
    items.insert(items.end(), more.begin(), more.end());
    return ws.sequence(a.kind(), std::move(items));
  }
  if (a.is_string()) raise("can only concatenate str (not \"{}\") to str", type_name(b));
  if (a.is_sequence()) raise("can only concatenate {0} (not \"{1}\") to {0}", type_name(a), type_name(b));
  raise("unsupported operand type(s) for +: '{}' and '{}'", type_name(a), type_name(b));
}

}  // namespace

Value apply(Workspace& ws, Op op, const Value& a, const Value& b) {
  if (op == Op::modulo && a.is_string()) return percent_format(ws, a, b);
  if (a.is_undefined()) raise("{}", a.as<Undefined>().why);
  if (b.is_undefined()) raise("{}", b.as<Undefined>().why);
  if (a.is_integral() && b.is_integral()) return integers(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return reals(op, a.number(), b.number());
  if (op == Op::add) return added(ws, a, b);
  if (op == Op::multiply) {
    if ((a.is_string() || a.is_sequence()) && b.is_integral()) return repeated(ws, a, b.integer());
    if ((b.is_string() || b.is_sequence()) && a.is_integral()) return repeated(ws, b, a.integer());
    if (a.is_string() || a.is_sequence()) raise("can't multiply sequence by non-int of type '{}'", type_name(b));
  }
  raise("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<int>(op)], type_name(a), type_name(b));
}

Value negate(const Value& value) {
  if (value.is_undefined()) raise("{}", value.as<Undefined>().why);
  if (value.is(Kind::real)) return Value(-value.number());
  if (!value.is_integral()) raise("bad operand type for unary -: '{}'", type_name(value));
  if (value.integer() == INT64_MIN) raise_overflow();
  return Value(-value.integer());
}

Value plus(const Value& value) {
  if (value.is_undefined()) raise("{}", value.as<Undefined>().why);
  if (value.is(Kind::real)) return value;
  if (!value.is_integral()) raise("bad operand type for unary +: '{}'", type_name(value));
  return Value(value.integer());
}

Value escaped(Workspace& ws, const Value& value) {
  if (value.is_markup()) return value;
  const Value plain = to_text(ws, value);
  ws.spend(plain.bytes().size() / 64);
  TextBuilder out(ws);
  const std::string_view bytes = plain.bytes();
  std::size_t done = 0;
  for (std::size_t at = bytes.find_first_of("&<>\"'"); at != bytes.npos; at = bytes.find_first_of("&<>\"'", done)) {
    out.add(plain.text(), done, at);
    const char c = bytes[at];
    out.add(c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : "&#39;", Origin::caller);
    done = at + 1;
  }
  out.add(plain.text(), done, bytes.size());
  return out.value(true);
}

}  // namespace millrace::text::jinja
