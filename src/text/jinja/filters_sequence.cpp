// Filters over sequences: taking, ordering, grouping, joining.

#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/filters.h"
#include "text/jinja/params.h"
#include "text/jinja/print.h"

namespace millrace::text::jinja {
namespace {

Value length(Workspace&, const Value& value, Args& args) {
  const Params p("length", args, {});
  return Value(length_of(value));
}

Value list(Workspace& ws, const Value& value, Args& args) {
  const Params p("list", args, {});
  return ws.list(items_of(ws, value));
}

Value first(Workspace& ws, const Value& value, Args& args) {
  const Params p("first", args, {});
  Items items(ws, value);
  Value item;
  return items.next(item) ? item : ws.undefined("No first item, sequence was empty.");
}

Value last(Workspace& ws, const Value& value, Args& args) {
  const Params p("last", args, {});
  if (!has_length(value)) raise("'{}' object is not reversible", type_name(value));
  if (value.is_sequence() && length_of(value) > 0) return value.as<Sequence>().items.back();
  const auto items = items_of(ws, value);
  return items.empty() ? ws.undefined("No last item, sequence was empty.") : items.back();
}

/// A generator over what `compute` gives, which is called when the first item is asked for.
template <class Compute>
Value giving(Workspace& ws, Compute compute) {
  return ws.generator([&ws, compute = std::move(compute), items = std::optional<std::vector<Value>>(), at = std::size_t{0}](Value& item) mutable {
    if (!items) {
      items = compute();
      ws.hold(items->size() * sizeof(Value));
    }
    if (at == items->size()) return false;
    item = (*items)[at++];
    return true;
  });
}

Value reverse(Workspace& ws, const Value& value, Args& args) {
  const Params p("reverse", args, {});
  if (value.is_string()) return slice(ws, value, Value(), Value(), Value(std::int64_t{-1}));
  auto items = items_of(ws, value);
  std::ranges::reverse(items);
  if (!has_length(value)) return ws.list(std::move(items));
  return giving(ws, [items = std::move(items)] { return items; });
}

Value items_of_mapping(Workspace& ws, const Value& value, Args& args) {
  const Params p("items", args, {});
  return ws.generator([&ws, value, at = std::size_t{0}](Value& item) mutable {
    if (value.is_undefined()) return false;
    if (!value.is(Kind::dict)) raise("Can only get item pairs from a mapping.");
    const auto& entries = value.as<Dict>().items;
    if (at == entries.size()) return false;
    item = ws.pair(entries[at].first, entries[at].second);
    ++at;
    return true;
  });
}

struct Keyed { Value key, value; };

void sort_by_key(Workspace& ws, std::vector<Keyed>& entries, bool descending) {
  // A descending sort keeps equal entries in order, as Python's does.
  std::stable_sort(entries.begin(), entries.end(), [&](const Keyed& a, const Keyed& b) {
    ws.spend();
    return descending ? less(ws, b.key, a.key) : less(ws, a.key, b.key);
  });
}

std::vector<Keyed> keyed(Workspace& ws, const Value& over, const Value& path, bool case_sensitive, const Value* otherwise = nullptr) {
  const AttributePath attribute(ws, path);
  std::vector<Keyed> out;
  Items items(ws, over);
  for (Value item; items.next(item);) {
    Value key = attribute.of(ws, item);
    if (key.is_undefined() && otherwise != nullptr) key = *otherwise;
    out.push_back({ignoring_case(ws, key, case_sensitive), item});
  }
  return out;
}

Value sort(Workspace& ws, const Value& value, Args& args) {
  const Params p("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = p.flag(1, false);
  std::vector<AttributePath> paths;  // one key is a tuple, too: equal ones are never asked for their order
  const bool several = p.has(2) && p[2].is_string();
  if (!several) paths.emplace_back(ws, p.get(2, Value()));
  for (std::size_t begin = 0; several && begin <= p[2].bytes().size();) {
    const std::size_t end = std::min(p[2].bytes().find(',', begin), p[2].bytes().size());
    paths.emplace_back(ws, ws.text(p[2].text().slice(begin, end)));
    begin = end + 1;
  }
  std::vector<Keyed> entries;
  Items items(ws, value);
  for (Value item; items.next(item);) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) keys.push_back(ignoring_case(ws, path.of(ws, item), case_sensitive));
    entries.push_back({ws.tuple(std::move(keys)), item});
  }
  sort_by_key(ws, entries, p.flag(0, false));
  std::vector<Value> out;
  for (Keyed& entry : entries) out.push_back(std::move(entry.value));
  return ws.list(std::move(out));
}

Value dictsort(Workspace& ws, const Value& value, Args& args) {
  const Params p("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string_view by = p.has(1) ? p.string(1).bytes() : "key";
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  if (!defined(value).is(Kind::dict)) raise("'{}' object has no attribute 'items'", type_name(value));
  std::vector<Keyed> entries;
  for (const auto& [key, item] : value.as<Dict>().items)
    entries.push_back({ignoring_case(ws, by == "key" ? key : item, p.flag(0, false)), ws.pair(key, item)});
  sort_by_key(ws, entries, p.flag(2, false));
  std::vector<Value> out;
  for (Keyed& entry : entries) out.push_back(std::move(entry.value));
  return ws.list(std::move(out));
}

template <bool largest>
Value extreme(Workspace& ws, const Value& value, Args& args) {
  const Params p("min", args, {"case_sensitive", "attribute"});
  const auto entries = keyed(ws, value, p.get(1, Value()), p.flag(0, false));
  if (entries.empty()) return ws.undefined("No aggregated item, sequence was empty.");
  const Keyed* best = entries.data();
  for (const Keyed& entry : entries)
    if (largest ? less(ws, best->key, entry.key, ">") : less(ws, entry.key, best->key)) best = &entry;
  return best->value;
}

Value unique(Workspace& ws, const Value& value, Args& args) {
  const Params p("unique", args, {"case_sensitive", "attribute"});
  Dict& seen = ws.dict();
  return ws.generator([&ws, &seen, value, items = std::optional<Items>(), path = AttributePath(ws, p.get(1, Value())),
                       case_sensitive = p.flag(0, false)](Value& item) mutable {
    if (!items) items.emplace(ws, value);
    while (items->next(item)) {
      const Value key = ignoring_case(ws, path.of(ws, item), case_sensitive);
      if (find(ws, seen, key) != nullptr) continue;
      put(ws, seen, key, Value());
      return true;
    }
    return false;
  });
}

Value groupby(Workspace& ws, const Value& value, Args& args) {
  const Params p("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const Value* otherwise = p.has_some(1) ? &p[1] : nullptr;
  auto entries = keyed(ws, value, p[0], p.flag(2, false), otherwise);
  sort_by_key(ws, entries, false);
  const AttributePath path(ws, p[0]);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < entries.size();) {
    std::vector<Value> members;
    const std::size_t begin = i;
    for (; i < entries.size() && equal(ws, entries[i].key, entries[begin].key); ++i) members.push_back(entries[i].value);
    Value shown = path.of(ws, members[0]);
    if (shown.is_undefined() && otherwise != nullptr) shown = *otherwise;
    const Value group = ws.pair(shown, ws.list(std::move(members)));
    group.as<Sequence>().group = true;
    groups.push_back(group);
    if (i == begin) break;  // a key that does not equal itself
  }
  return ws.list(std::move(groups));
}

Value join(Workspace& ws, const Value& value, Args& args) {
  const Params p("join", args, {"d", "attribute"});
  const Text separator = p.has(0) ? to_text(ws, p[0]).text() : Text();
  const AttributePath path(ws, p.get(1, Value()));
  TextBuilder out(ws);
  Items items(ws, value);
  Value item;
  for (bool first_item = true; items.next(item); first_item = false) {
    if (!first_item) out.add(separator);
    write_str(out, ws, path.of(ws, item));
  }
  return out.value();
}

Value sum(Workspace& ws, const Value& value, Args& args) {
  const Params p("sum", args, {"attribute", "start"});
  const AttributePath path(ws, p.get(0, Value()));
  Value total = p.get(1, Value(std::int64_t{0}));
  if (total.is_string()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  Items items(ws, value);
  for (Value item; items.next(item);) total = apply(ws, Op::add, total, path.of(ws, item));
  return total;
}

std::vector<Value> batches(Workspace& ws, const Value& value, std::int64_t size, const std::optional<Value>& fill) {
  std::vector<Value> lists, current;
  for (const Value& item : items_of(ws, value)) {
    if (static_cast<std::int64_t>(current.size()) == size) lists.push_back(ws.list(std::exchange(current, {})));
    current.push_back(item);
  }
  if (current.empty()) return lists;
  for (; fill && static_cast<std::int64_t>(current.size()) < size; ws.spend(), ws.hold(sizeof(Value))) current.push_back(*fill);
  lists.push_back(ws.list(std::move(current)));
  return lists;
}

Value batch(Workspace& ws, const Value& value, Args& args) {
  const Params p("batch", args, {"linecount", "fill_with"}, 1);
  return giving(ws, [&ws, value, size = p.integer(0, 0), fill = p.has_some(1) ? std::optional(p[1]) : std::nullopt] {
    return batches(ws, value, size, fill);
  });
}

std::vector<Value> slices(Workspace& ws, const Value& value, std::int64_t count, const std::optional<Value>& fill) {
  const auto all = items_of(ws, value);
  if (count == 0) raise("integer division or modulo by zero");
  const auto n = static_cast<std::int64_t>(all.size());
  std::vector<Value> lists;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    ws.spend();
    const std::int64_t take = n / count + (i < n % count ? 1 : 0);
    std::vector<Value> part(all.begin() + at, all.begin() + at + take);
    at += take;
    if (fill && i >= n % count) part.push_back(*fill);
    lists.push_back(ws.list(std::move(part)));
  }
  return lists;
}

Value slice_filter(Workspace& ws, const Value& value, Args& args) {
  const Params p("slice", args, {"slices", "fill_with"}, 1);
  return giving(ws, [&ws, value, count = p.integer(0, 0), fill = p.has_some(1) ? std::optional(p[1]) : std::nullopt] {
    return slices(ws, value, count, fill);
  });
}

constexpr MethodEntry kFilters[] = {
    {"batch", batch}, {"count", length}, {"dictsort", dictsort}, {"first", first}, {"groupby", groupby},
    {"items", items_of_mapping}, {"join", join}, {"last", last}, {"length", length}, {"list", list}, {"max", extreme<true>},
    {"min", extreme<false>}, {"random", nullptr}, {"reverse", reverse}, {"slice", slice_filter}, {"sort", sort}, {"sum", sum},
    {"unique", unique}};

}  // namespace

std::span<const MethodEntry> sequence_filters() { return kFilters; }

}  // namespace millrace::text::jinja
