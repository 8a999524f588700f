#include "text/jinja/compare.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

constexpr std::size_t kIndexFrom = 8;  // a scan of a few entries is faster than hashing

std::size_t hash_of(Workspace& ws, const Value& key) {
  Workspace::Nest nest(ws);
  switch (key.kind()) {
    case Kind::string:
      ws.spend(key.bytes().size() / 256);
      return std::hash<std::string_view>()(key.bytes());
    case Kind::boolean:
    case Kind::integer:
    case Kind::real: return std::hash<double>()(key.number());  // 1, 1.0 and true are one key
    case Kind::tuple: {
      std::size_t hash = 7;
      for (const Value& item : key.as<Sequence>().items) hash = hash * 1000003 ^ hash_of(ws, item);
      return hash;
    }
    case Kind::list:
    case Kind::dict: raise("unhashable type: '{}'", type_name(key));
    case Kind::none:
    case Kind::undefined: return static_cast<std::size_t>(key.kind());
    default: return std::hash<const void*>()(key.object());
  }
}

std::size_t place_of(Workspace& ws, const Dict& dict, const Value& key, std::size_t hash) {
  if (dict.items.size() < kIndexFrom) {
    for (std::size_t i = 0; i < dict.items.size(); ++i)
      if (equal(ws, dict.items[i].first, key)) return i;
    return dict.items.size();
  }
  for (auto [at, end] = dict.places.equal_range(hash); at != end; ++at)
    if (equal(ws, dict.items[at->second].first, key)) return at->second;
  return dict.items.size();
}

int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  return a.number() < b.number() ? -1 : a.number() > b.number();
}

Value view_item(Workspace& ws, const View& view, std::size_t i) {
  const auto& [key, value] = view.dict->items[i];
  if (view.what == View::What::keys) return key;
  if (view.what == View::What::values) return value;
  return ws.pair(key, value);
}

}  // namespace

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return value.integer() != 0;
    case Kind::real: return value.number() != 0;
    case Kind::string: return !value.text().empty();
    default: return !has_length(value) || length_of(value) > 0;
  }
}

bool equal(Workspace& ws, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.kind() != b.kind()) return false;
  Workspace::Nest nest(ws);
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none: return true;
    case Kind::string:
      ws.spend(std::min(a.bytes().size(), b.bytes().size()) / 1024);
      return a.bytes() == b.bytes();
    case Kind::list:
    case Kind::tuple: {
      const auto &x = a.as<Sequence>().items, &y = b.as<Sequence>().items;
      if (x.size() != y.size()) return false;
      ws.spend(x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!equal(ws, x[i], y[i])) return false;
      return true;
    }
    case Kind::dict: {
      const Dict &x = a.as<Dict>(), &y = b.as<Dict>();
      if (x.items.size() != y.items.size()) return false;
      ws.spend(x.items.size());
      for (const auto& [key, value] : x.items) {
        const Value* other = find(ws, y, key);
        if (other == nullptr || !equal(ws, value, *other)) return false;
      }
      return true;
    }
    case Kind::range: {
      const Range &x = a.as<Range>(), &y = b.as<Range>();
      if (x.length != y.length) return false;
      return x.length == 0 || (x.start == y.start && (x.length == 1 || x.step == y.step));
    }
    case Kind::method: return a.as<Method>().name == b.as<Method>().name && equal(ws, a.as<Method>().self, b.as<Method>().self);
    default: return a.object() == b.object();
  }
}

bool less(Workspace& ws, const Value& a, const Value& b, const char* op) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) < 0;
  if (a.is_undefined()) raise("{}", a.as<Undefined>().why);
  if (b.is_undefined()) raise("{}", b.as<Undefined>().why);
  if (a.is_string() && b.is_string()) {
    ws.spend(std::min(a.bytes().size(), b.bytes().size()) / 1024);
    return a.bytes() < b.bytes();  // UTF-8 sorts like its code points
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    Workspace::Nest nest(ws);
    const auto &x = a.as<Sequence>().items, &y = b.as<Sequence>().items;
    ws.spend(std::min(x.size(), y.size()));
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!equal(ws, x[i], y[i])) return less(ws, x[i], y[i], op);
    return x.size() < y.size();
  }
  raise("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b));
}

bool contains(Workspace& ws, const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    if (!needle.is_string()) raise("'in <string>' requires string as left operand, not {}", type_name(needle));
    ws.spend(1 + haystack.bytes().size() / 256);
    return find_bytes(haystack.bytes(), needle.bytes()) != std::string_view::npos;
  }
  if (haystack.is(Kind::dict)) return find(ws, haystack.as<Dict>(), needle) != nullptr;
  if (!is_iterable(haystack)) raise("argument of type '{}' is not iterable", type_name(haystack));
  Items items(ws, haystack);
  for (Value item; items.next(item);)
    if (equal(ws, item, needle)) return true;
  return false;
}

bool has_length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range: return true;
    default: return false;
  }
}

std::int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return 0;
    case Kind::string: return static_cast<std::int64_t>(value.str()->chars);
    case Kind::list:
    case Kind::tuple: return static_cast<std::int64_t>(value.as<Sequence>().items.size());
    case Kind::dict: return static_cast<std::int64_t>(value.as<Dict>().items.size());
    case Kind::view: return static_cast<std::int64_t>(value.as<View>().dict->items.size());
    case Kind::range: return value.as<Range>().length;
    default: raise("object of type '{}' has no len()", type_name(value));
  }
}

bool is_iterable(const Value& value) { return has_length(value) || value.is(Kind::generator); }

Items::Items(Workspace& ws, const Value& over) : ws_(&ws), over_(over) {
  if (!is_iterable(over)) raise("'{}' object is not iterable", type_name(over));
}

bool Items::next(Value& item) {
  ws_->spend();
  switch (over_.kind()) {
    case Kind::string: {
      if (at_ >= over_.text().size()) return false;
      const std::size_t end = char_at(over_.bytes(), at_).end;
      item = ws_->text(over_.text().slice(at_, end));  // plain, even of a Markup: Python iterates a str
      at_ = end;
      return true;
    }
    case Kind::list:
    case Kind::tuple: {
      const auto& items = over_.as<Sequence>().items;
      if (at_ >= items.size()) return false;
      item = items[at_++];
      return true;
    }
    case Kind::dict: {
      const auto& items = over_.as<Dict>().items;
      if (at_ >= items.size()) return false;
      item = items[at_++].first;
      return true;
    }
    case Kind::view: {
      const View& view = over_.as<View>();
      if (at_ >= view.dict->items.size()) return false;
      item = view_item(*ws_, view, at_++);
      return true;
    }
    case Kind::range: {
      const Range& range = over_.as<Range>();
      if (static_cast<std::int64_t>(at_) >= range.length) return false;
      item = Value(range.start + static_cast<std::int64_t>(at_++) * range.step);
      return true;
    }
    case Kind::generator: {
      Workspace::Nest nest(*ws_);  // a generator may pull from another
      Generator& generator = over_.as<Generator>();
      const Running running(generator.running);
      return generator.pull(item);
    }
    default: return false;  // undefined: nothing
  }
}

std::vector<Value> items_of(Workspace& ws, const Value& over) {
  std::vector<Value> all;
  Items items(ws, over);
  for (Value item; items.next(item);) all.push_back(item);
  return all;
}

const Value* find(Workspace& ws, const Dict& dict, const Value& key) {
  const std::size_t place = place_of(ws, dict, key, hash_of(ws, key));
  return place < dict.items.size() ? &dict.items[place].second : nullptr;
}

const Value* find_text(const Dict& dict, std::string_view key) {
  const auto matches = [&](std::size_t i) { return dict.items[i].first.is_string() && dict.items[i].first.bytes() == key; };
  if (dict.items.size() < kIndexFrom) {
    for (std::size_t i = 0; i < dict.items.size(); ++i)
      if (matches(i)) return &dict.items[i].second;
    return nullptr;
  }
  for (auto [at, end] = dict.places.equal_range(std::hash<std::string_view>()(key)); at != end; ++at)
    if (matches(at->second)) return &dict.items[at->second].second;
  return nullptr;
}

void put(Workspace& ws, Dict& dict, const Value& key, const Value& value) {
  const std::size_t hash = hash_of(ws, key), place = place_of(ws, dict, key, hash);
  if (place < dict.items.size()) {
    dict.items[place].second = value;
    return;
  }
  ws.hold(2 * sizeof(Value));
  dict.items.emplace_back(key, value);
  if (dict.items.size() == kIndexFrom) {
    for (std::size_t i = 0; i < dict.items.size(); ++i) dict.places.emplace(hash_of(ws, dict.items[i].first), i);
  } else if (dict.items.size() > kIndexFrom) {
    dict.places.emplace(hash, place);
  }
}

}  // namespace millrace::text::jinja
