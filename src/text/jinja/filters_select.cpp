// map, select, reject and their attribute forms. They compute when asked, as Python's generators do: what is never
// looked at cannot fail.

#include "text/jinja/filters.h"
#include "text/jinja/is_tests.h"
#include "text/jinja/params.h"

namespace millrace::text::jinja {
namespace {

/// The items of `over`, or none at all when it is false: `none | map(...)` gives nothing.
std::optional<Items> items_if_true(Workspace& ws, const Value& over) {
  if (!truth(over)) return std::nullopt;
  return Items(ws, over);
}

Value map(Workspace& ws, const Value& value, Args& args) {
  if (args.positional.empty()) {
    const Params p("map", args, {"attribute", "default"});
    if (!p.has(0)) raise("map requires a filter argument");
    return ws.generator([&ws, value, items = std::optional<Items>(), path = AttributePath(ws, p[0]),
                         otherwise = p.has_some(1) ? std::optional<Value>(p[1]) : std::nullopt](Value& item) mutable {
      if (!items && !(items = items_if_true(ws, value))) return false;
      if (!items->next(item)) return false;
      item = path.of(ws, item);
      if (item.is_undefined() && otherwise) item = *otherwise;
      return true;
    });
  }
  if (!args.positional[0].is_string()) raise("map requires the name of a filter, not {}", type_name(args.positional[0]));
  Args rest = args;
  const Value name = rest.positional[0];
  rest.positional.erase(rest.positional.begin());
  return ws.generator([&ws, value, name, rest = std::move(rest), items = std::optional<Items>()](Value& item) mutable {
    if (!items && !(items = items_if_true(ws, value))) return false;
    Value subject;
    if (!items->next(subject)) return false;
    Args copy = rest;
    item = apply_filter(ws, find_filter(name.bytes()), name.bytes(), subject, copy);
    return true;
  });
}

template <bool keep, bool by_attribute>
Value select(Workspace& ws, const Value& value, Args& args) {
  Args rest = args;
  Value path, name;
  if (by_attribute) {
    if (rest.positional.empty()) raise("Missing parameter for attribute name");
    path = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  }
  const bool plain = rest.positional.empty();
  if (!plain) {
    name = rest.positional[0];
    if (!name.is_string()) raise("select requires the name of a test, not {}", type_name(name));
    rest.positional.erase(rest.positional.begin());
  }
  return ws.generator([&ws, value, path = AttributePath(ws, path), plain, name, rest = std::move(rest),
                       items = std::optional<Items>()](Value& item) mutable {
    if (!items && !(items = items_if_true(ws, value))) return false;
    while (items->next(item)) {
      const Value subject = path.of(ws, item);
      Args copy = rest;
      if ((plain ? truth(subject) : apply_test(ws, find_test(name.bytes()), name.bytes(), subject, copy)) == keep) return true;
    }
    return false;
  });
}

constexpr MethodEntry kFilters[] = {{"map", map}, {"reject", select<false, false>}, {"rejectattr", select<false, true>},
                                    {"select", select<true, false>}, {"selectattr", select<true, true>}};

}  // namespace

std::span<const MethodEntry> select_filters() { return kFilters; }

}  // namespace millrace::text::jinja
