#include "text/jinja/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/params.h"

namespace millrace::text::jinja {
namespace {

Value dict_get(Workspace& ws, const Value& self, Args& args) {
  const Params p("get", args, {"", ""}, 1);
  const Value* found = find(ws, self.as<Dict>(), p[0]);
  return found != nullptr ? *found : p.get(1, Value());
}

template <View::What what>
Value dict_view(Workspace& ws, const Value& self, Args& args) {
  const Params p("view", args, {});
  return Value(&ws.make<View>(0, self.as<Dict>(), what));
}

Value dict_copy(Workspace&, const Value& self, Args& args) {
  const Params p("copy", args, {});
  return self;  // nothing can change it
}

Value dict_fromkeys(Workspace& ws, const Value&, Args& args) {
  const Params p("fromkeys", args, {"", ""}, 1);
  Dict& made = ws.dict();
  for (const Value& key : items_of(ws, p[0])) put(ws, made, key, p.get(1, Value()));
  return Value(&made);
}

Value sequence_count(Workspace& ws, const Value& self, Args& args) {
  const Params p("count", args, {""}, 1);
  std::int64_t n = 0;
  for (const Value& item : items_of(ws, self)) n += equal(ws, item, p[0]) ? 1 : 0;
  return Value(n);
}

Value sequence_index(Workspace& ws, const Value& self, Args& args) {
  const Params p("index", args, {"", "", ""}, 1);
  const auto items = items_of(ws, self);
  const auto n = static_cast<std::int64_t>(items.size());
  const auto bound = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  for (std::int64_t i = bound(p.integer(1, 0)), end = bound(p.integer(2, n)); i < end; ++i)
    if (equal(ws, items[static_cast<std::size_t>(i)], p[0])) return Value(i);
  raise("{}.index(x): x not in {}", type_name(self), type_name(self));
}

Value real_is_integer(Workspace&, const Value& self, Args& args) {
  const Params p("is_integer", args, {});
  return Value(std::isfinite(self.number()) && std::floor(self.number()) == self.number());
}

Value number_itself(Workspace&, const Value& self, Args& args) {
  const Params p("conjugate", args, {});
  return self;
}

Value int_bit_length(Workspace&, const Value& self, Args& args) {
  const Params p("bit_length", args, {});
  const std::int64_t n = self.integer();
  std::int64_t bits = 0;
  for (auto size = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n); size > 0; size >>= 1) ++bits;
  return Value(bits);
}

Value cycler_next(Workspace&, const Value& self, Args& args) {
  const Params p("next", args, {});
  Cycler& cycler = self.as<Cycler>();
  const Value now = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return now;
}

Value cycler_reset(Workspace&, const Value& self, Args& args) {
  const Params p("reset", args, {});
  self.as<Cycler>().at = 0;
  return Value();
}

constexpr MethodEntry kDict[] = {
    {"get", dict_get}, {"items", dict_view<View::What::items>}, {"keys", dict_view<View::What::keys>},
    {"values", dict_view<View::What::values>}, {"copy", dict_copy}, {"fromkeys", dict_fromkeys}};
constexpr MethodEntry kList[] = {{"count", sequence_count}, {"index", sequence_index}, {"copy", dict_copy}};
constexpr MethodEntry kTuple[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr MethodEntry kView[] = {{"isdisjoint", nullptr}, {"mapping", nullptr}};
constexpr MethodEntry kInteger[] = {{"conjugate", number_itself}, {"bit_length", int_bit_length}, {"as_integer_ratio", nullptr},
                                    {"bit_count", nullptr}, {"from_bytes", nullptr}, {"to_bytes", nullptr}};
constexpr MethodEntry kReal[] = {{"conjugate", number_itself}, {"is_integer", real_is_integer}, {"as_integer_ratio", nullptr},
                                 {"fromhex", nullptr}, {"hex", nullptr}};
constexpr MethodEntry kGenerator[] = {{"close", nullptr}, {"send", nullptr}, {"throw", nullptr}};
constexpr MethodEntry kCycler[] = {{"next", cycler_next}, {"reset", cycler_reset}};

std::span<const MethodEntry> entries(Kind kind) {
  switch (kind) {
    case Kind::dict: return kDict;
    case Kind::list: return kList;
    case Kind::tuple:
    case Kind::range: return kTuple;
    case Kind::view: return kView;
    case Kind::boolean:
    case Kind::integer: return kInteger;
    case Kind::real: return kReal;
    case Kind::generator: return kGenerator;
    case Kind::cycler: return kCycler;
    default: return {};
  }
}

Value not_here(Workspace&, const Value& self, Args&) { raise("a method of '{}' that this engine does not have was called", type_name(self)); }

std::optional<Value> plain_attribute(const Value& value, std::string_view name) {
  if (value.is_number()) {
    const bool real = value.is(Kind::real);
    if (name == "real" || (name == "numerator" && !real)) return real ? value : Value(value.integer());
    if (name == "imag") return real ? Value(0.0) : Value(std::int64_t{0});
    if (name == "denominator" && !real) return Value(std::int64_t{1});
  }
  if (value.is(Kind::range)) {
    const Range& range = value.as<Range>();
    if (name == "start") return Value(range.start);
    if (name == "step") return Value(range.step);
    if (name == "stop") return Value(range.stop);
  }
  if (value.is(Kind::tuple) && value.as<Sequence>().group) {
    if (name == "grouper") return value.as<Sequence>().items[0];
    if (name == "list") return value.as<Sequence>().items[1];
  }
  if (value.is(Kind::cycler) && name == "current") return value.as<Cycler>().items[value.as<Cycler>().at];
  return std::nullopt;
}

}  // namespace

std::optional<Value> method_of(Workspace& ws, const Value& value, std::string_view name) {
  const auto bound = [&](std::span<const MethodEntry> table) -> std::optional<Value> {
    const auto found = std::ranges::find_if(table, [&](const MethodEntry& entry) { return name == entry.name; });
    if (found == table.end()) return std::nullopt;
    return Value(&ws.make<Method>(0, value, found->name, found->run != nullptr ? found->run : not_here));
  };
  if (value.is_string()) {
    if (auto method = bound(str_methods())) return method;
    return bound(str_tests());
  }
  if (auto method = bound(entries(value.kind()))) return method;
  return plain_attribute(value, name);
}

bool changes_its_object(const Value& value, std::string_view name) {
  constexpr std::array kListChanges = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  constexpr std::array kDictChanges = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is(Kind::list)) return std::ranges::find(kListChanges, name) != kListChanges.end();
  return value.is(Kind::dict) && std::ranges::find(kDictChanges, name) != kDictChanges.end();
}

}  // namespace millrace::text::jinja
