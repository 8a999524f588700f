#include "text/jinja/is_tests.h"

#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/filters.h"
#include "text/jinja/params.h"
#include "text/jinja/print.h"

namespace millrace::text::jinja {
namespace {

template <Kind kind>
Value is_kind(Workspace&, const Value& value, Args& args) {
  const Params p("test", args, {});
  return Value(value.is(kind));
}

Value is_defined(Workspace&, const Value& value, Args& args) {
  const Params p("defined", args, {});
  return Value(!value.is_undefined());
}

template <bool which>
Value is_boolean(Workspace&, const Value& value, Args& args) {
  const Params p("true", args, {});
  return Value(value.is(Kind::boolean) && value.boolean() == which);
}

Value is_number(Workspace&, const Value& value, Args& args) {
  const Params p("number", args, {});
  return Value(value.is_number());
}

Value is_sequence(Workspace&, const Value& value, Args& args) {
  const Params p("sequence", args, {});
  return Value(has_length(value) && !value.is(Kind::view));
}

Value is_iterable_test(Workspace&, const Value& value, Args& args) {
  const Params p("iterable", args, {});
  return Value(is_iterable(value) || value.is(Kind::loop));
}

Value is_callable(Workspace&, const Value& value, Args& args) {
  const Params p("callable", args, {});
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::macro:
    case Kind::method:
    case Kind::function:
    case Kind::loop:
    case Kind::joiner: return Value(true);
    default: return Value(false);
  }
}

Value is_sameas(Workspace&, const Value& value, Args& args) {
  const Params p("sameas", args, {"other"}, 1);
  const Value& other = p[0];
  if (value.kind() != other.kind()) return Value(false);
  if (value.is_none()) return Value(true);
  if (value.is_string()) {  // Python shares equal literals
    const bool literals = value.str()->account == nullptr && other.str()->account == nullptr;
    return Value(value.str() == other.str() || ((literals || value.text().empty()) && value.bytes() == other.bytes()));
  }
  if (value.is_integral()) return Value(value.integer() == other.integer());
  if (value.is(Kind::real)) return Value(value.number() == other.number());
  return Value(value.object() == other.object());
}

Value is_escaped(Workspace&, const Value& value, Args& args) {
  const Params p("escaped", args, {});
  return Value(value.is_markup());
}

template <std::int64_t rest>
Value modulo_two(Workspace& ws, const Value& value, Args& args) {
  const Params p("odd", args, {});
  return Value(equal(ws, apply(ws, Op::modulo, value, Value(std::int64_t{2})), Value(rest)));
}

Value is_divisible(Workspace& ws, const Value& value, Args& args) {
  const Params p("divisibleby", args, {"num"}, 1);
  return Value(equal(ws, apply(ws, Op::modulo, value, p[0]), Value(std::int64_t{0})));
}

Value is_lower(Workspace& ws, const Value& value, Args& args) {
  return attribute(ws, to_text(ws, value), "islower").as<Method>().run(ws, to_text(ws, value), args);
}

Value is_upper(Workspace& ws, const Value& value, Args& args) {
  return attribute(ws, to_text(ws, value), "isupper").as<Method>().run(ws, to_text(ws, value), args);
}

void check_hashable(const Value& value) {
  if (value.is(Kind::list) || value.is(Kind::dict)) raise("unhashable type: '{}'", type_name(value));
}

Value is_filter(Workspace&, const Value& value, Args& args) {
  const Params p("filter", args, {});
  check_hashable(value);
  return Value(value.is_string() && find_filter(value.bytes()) != nullptr);
}

Value is_test(Workspace&, const Value& value, Args& args) {
  const Params p("test", args, {});
  check_hashable(value);
  return Value(value.is_string() && find_test(value.bytes()) != nullptr);
}

Value is_in(Workspace& ws, const Value& value, Args& args) {
  const Params p("in", args, {"seq"}, 1);
  return Value(contains(ws, p[0], value));
}

enum class Compare : unsigned char { eq, ne, lt, le, gt, ge };

template <Compare how>
Value compares(Workspace& ws, const Value& a, Args& args) {
  const Params p("comparison", args, {""}, 1);
  const Value& b = p[0];
  switch (how) {
    case Compare::eq: return Value(equal(ws, a, b));
    case Compare::ne: return Value(!equal(ws, a, b));
    case Compare::lt: return Value(less(ws, a, b));
    case Compare::gt: return Value(less(ws, b, a, ">"));
    case Compare::le: return Value(less(ws, a, b, "<=") || equal(ws, a, b));
    case Compare::ge: return Value(less(ws, b, a, ">=") || equal(ws, a, b));
  }
  return Value(false);
}

constexpr MethodEntry kTests[] = {
    {"odd", modulo_two<1>}, {"even", modulo_two<0>}, {"divisibleby", is_divisible}, {"defined", is_defined},
    {"undefined", is_kind<Kind::undefined>}, {"filter", is_filter}, {"test", is_test}, {"none", is_kind<Kind::none>},
    {"boolean", is_kind<Kind::boolean>}, {"false", is_boolean<false>}, {"true", is_boolean<true>},
    {"integer", is_kind<Kind::integer>}, {"float", is_kind<Kind::real>}, {"lower", is_lower}, {"upper", is_upper},
    {"string", is_kind<Kind::string>}, {"mapping", is_kind<Kind::dict>}, {"number", is_number}, {"sequence", is_sequence},
    {"iterable", is_iterable_test}, {"callable", is_callable}, {"sameas", is_sameas}, {"escaped", is_escaped}, {"in", is_in},
    {"==", compares<Compare::eq>}, {"eq", compares<Compare::eq>}, {"equalto", compares<Compare::eq>},
    {"!=", compares<Compare::ne>}, {"ne", compares<Compare::ne>}, {">", compares<Compare::gt>}, {"gt", compares<Compare::gt>},
    {"greaterthan", compares<Compare::gt>}, {"ge", compares<Compare::ge>}, {">=", compares<Compare::ge>},
    {"<", compares<Compare::lt>}, {"lt", compares<Compare::lt>}, {"lessthan", compares<Compare::lt>},
    {"<=", compares<Compare::le>}, {"le", compares<Compare::le>}};

}  // namespace

const MethodEntry* find_test(std::string_view name) {
  const auto found = std::ranges::find_if(kTests, [&](const MethodEntry& entry) { return name == entry.name; });
  return found == std::end(kTests) ? nullptr : found;
}

bool apply_test(Workspace& ws, const MethodEntry* test, std::string_view name, const Value& subject, Args& args) {
  if (test == nullptr) raise("No test named '{}' found.", name);
  ws.spend();
  return truth(test->run(ws, subject, args));
}

}  // namespace millrace::text::jinja
