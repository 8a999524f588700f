#pragma once

// a.b, a[b] and a[b:c:d], as Jinja2's immutable sandbox answers them: attributes of Python's types are methods; what
// would change a value or starts with an underscore is there but unusable; what is missing is undefined, not an error.

#include <optional>
#include <string_view>

#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

/// An attribute proper, never an item; nullopt when there is none.
std::optional<Value> own_attribute(Workspace& ws, const Value& value, std::string_view name);

/// value.name: the type's own first, then an item of that name.
Value attribute(Workspace& ws, const Value& value, std::string_view name);

/// value[key]: an item first, then the attribute when key is a string.
Value item(Workspace& ws, const Value& value, const Value& key);

/// value[first:last:step]; none stands for a bound left out.
Value slice(Workspace& ws, const Value& value, const Value& first, const Value& last, const Value& step);

/// `value` with the messages an operation on undefined raises; for callers that need a defined one.
inline const Value& defined(const Value& value) {
  if (value.is_undefined()) raise("{}", value.as<Undefined>().why);
  return value;
}

}  // namespace millrace::text::jinja
