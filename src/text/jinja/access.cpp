#include "text/jinja/access.h"

#include <algorithm>
#include <array>

#include "text/jinja/globals.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/methods.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

// Attributes that every Python object has. The sandbox hides them.
constexpr std::array kHidden = {
    "__class__", "__delattr__", "__dir__", "__doc__", "__eq__", "__format__", "__ge__", "__getattribute__", "__gt__",
    "__hash__", "__init__", "__init_subclass__", "__le__", "__lt__", "__ne__", "__new__", "__reduce__", "__reduce_ex__",
    "__repr__", "__setattr__", "__sizeof__", "__str__", "__subclasshook__", "__len__", "__getitem__", "__contains__",
    "__iter__"};

Value unsafe(Workspace& ws, const Value& value, std::string_view name) {
  return ws.undefined("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value));
}

/// "list object", "None": how Jinja2 names what lacks something.
std::string described(const Value& value) {
  return value.is_none() ? "None" : std::string(type_name(value)) + " object";
}

}  // namespace

std::optional<Value> own_attribute(Workspace& ws, const Value& value, std::string_view name) {
  if (value.is(Kind::name_space)) {
    const Value* member = find_text(*value.as<NameSpace>().members, name);
    if (member != nullptr) return name.starts_with('_') ? unsafe(ws, value, name) : *member;
  }
  if (name.starts_with("__") && std::ranges::find(kHidden, name) != kHidden.end()) return unsafe(ws, value, name);
  if (value.is(Kind::loop)) return loop_attribute(ws, value.as<Loop>(), name);
  if (value.is(Kind::macro)) return macro_attribute(ws, value.as<Macro>(), name);
  if (changes_its_object(value, name)) return unsafe(ws, value, name);
  return method_of(ws, value, name);
}

namespace {

std::optional<Value> own_item(Workspace& ws, const Value& value, const Value& key) {
  if (value.is(Kind::dict)) {
    if (key.is(Kind::list) || key.is(Kind::dict)) return std::nullopt;
    const Value* found = find(ws, value.as<Dict>(), key);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  const bool indexed = value.is_string() || value.is_sequence() || value.is(Kind::range);
  if (!indexed || !key.is_integral()) return std::nullopt;
  const std::int64_t length = length_of(value);
  const std::int64_t at = key.integer() < 0 ? key.integer() + length : key.integer();
  if (at < 0 || at >= length) return std::nullopt;
  const auto i = static_cast<std::size_t>(at);
  if (value.is_sequence()) return value.as<Sequence>().items[i];
  if (value.is(Kind::range)) return Value(value.as<Range>().start + at * value.as<Range>().step);
  const bool ascii = value.str()->chars == value.text().size();
  ws.spend(ascii ? 1 : 1 + i / 64);
  const std::size_t begin = ascii ? i : byte_of_char(value.bytes(), i);
  return ws.text(value.text().slice(begin, char_at(value.bytes(), begin).end), value.is_markup());
}

std::optional<std::int64_t> bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (!value.is_integral()) raise("slice indices must be integers or None or have an __index__ method");
  return value.integer();
}

/// The places of a[first:last:step] in a sequence of `length`: start, step, count.
struct Places { std::int64_t start, step, count; };

Places places_of(std::int64_t length, const Value& first, const Value& last, const Value& step_value) {
  const std::int64_t step = bound(step_value).value_or(1);
  if (step == 0) raise("slice step cannot be zero");
  const bool forward = step > 0;
  const std::int64_t low = forward ? 0 : -1, high = forward ? length : length - 1;
  const auto clamped = [&](const Value& value, std::int64_t otherwise) {
    const auto given = bound(value);
    if (!given) return otherwise;
    const std::int64_t from_start = *given < 0 ? (*given < -length ? -1 : *given + length) : *given;
    return std::clamp(from_start, low, high);
  };
  const std::int64_t start = clamped(first, forward ? low : high), stop = clamped(last, forward ? high : low);
  const std::int64_t span = forward ? stop - start : start - stop;
  if (span <= 0) return {start, step, 0};
  // |step| may be as large as an int64: divide before negating.
  const std::uint64_t stride = forward ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return {start, step, static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride) + 1};
}

Value sliced_text(Workspace& ws, const Value& value, const Places& places) {
  const Text& text = value.text();
  const bool ascii = value.str()->chars == text.size();
  const auto offset = [&](std::int64_t i) {
    return ascii ? static_cast<std::size_t>(i) : byte_of_char(text.bytes(), static_cast<std::size_t>(i));
  };
  if (places.count == 0) return ws.text(Text(), value.is_markup());
  if (!ascii) ws.spend(text.size() / 64);
  if (places.step == 1) return ws.text(text.slice(offset(places.start), offset(places.start + places.count)), value.is_markup());
  std::vector<std::size_t> offsets;  // of every character; only where they are not the indices
  if (!ascii) for (std::size_t at = 0; at < text.size(); at = char_at(text.bytes(), at).end) offsets.push_back(at);
  ws.spend(static_cast<std::size_t>(places.count) + offsets.size() / 8);
  TextBuilder out(ws);
  for (std::int64_t i = 0; i < places.count; ++i) {
    const auto at = static_cast<std::size_t>(places.start + i * places.step);
    const std::size_t begin = ascii ? at : offsets[at];
    out.add(text, begin, char_at(text.bytes(), begin).end);
  }
  return out.value(value.is_markup());
}

}  // namespace

Value attribute(Workspace& ws, const Value& value, std::string_view name) {
  defined(value);
  if (auto own = own_attribute(ws, value, name)) return *own;
  if (value.is(Kind::dict)) {
    if (const Value* found = find_text(value.as<Dict>(), name)) return *found;
  }
  return ws.undefined("'{}' has no attribute '{}'", described(value), name);
}

Value item(Workspace& ws, const Value& value, const Value& key) {
  defined(value);
  if (auto own = own_item(ws, value, key)) return *own;
  if (key.is_string()) {
    if (auto own = own_attribute(ws, value, key.bytes())) return *own;
    return ws.undefined("'{}' has no attribute '{}'", described(value), key.bytes());
  }
  TextBuilder printed(ws);
  write_repr(printed, ws, key);
  return ws.undefined("{} has no element {}", described(value), printed.text().bytes());
}

Value slice(Workspace& ws, const Value& value, const Value& first, const Value& last, const Value& step) {
  defined(value);
  if (value.is(Kind::dict)) raise("unhashable type: 'slice'");
  if (!value.is_string() && !value.is_sequence() && !value.is(Kind::range)) raise("'{}' object is not subscriptable", type_name(value));
  const Places places = places_of(length_of(value), first, last, step);
  if (value.is_string()) return sliced_text(ws, value, places);
  if (value.is(Kind::range)) {
    const Range& range = value.as<Range>();
    const auto place = [&](std::int64_t i) {  // unsigned: a bound past the last element may lie beyond an int64
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(range.start) + static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(range.step));
    };
    const auto stride = static_cast<std::int64_t>(static_cast<std::uint64_t>(range.step) * static_cast<std::uint64_t>(places.step));
    const std::int64_t stop = static_cast<std::int64_t>(static_cast<std::uint64_t>(places.start) + static_cast<std::uint64_t>(places.count) * static_cast<std::uint64_t>(places.step));
    return Value(&ws.make<Range>(0, place(places.start), place(stop), stride, places.count));
  }
  std::vector<Value> items;
  for (std::int64_t i = 0; i < places.count; ++i) items.push_back(value.as<Sequence>().items[static_cast<std::size_t>(places.start + i * places.step)]);
  return ws.sequence(value.kind(), std::move(items));
}

}  // namespace millrace::text::jinja
