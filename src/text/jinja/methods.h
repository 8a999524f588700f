#pragma once

// The attributes of Python's built-in types, by type and name.

#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

struct MethodEntry {
  const char* name;
  Callable run;  // nullptr: Python has it, we do not; using it says so
};

std::span<const MethodEntry> str_methods();
std::span<const MethodEntry> str_tests();  // isalpha and its kin

/// The method or plain attribute `name` of `value`'s type; nullopt when the type has none.
std::optional<Value> method_of(Workspace& ws, const Value& value, std::string_view name);

/// append, update, pop, ...: what the immutable sandbox refuses.
bool changes_its_object(const Value& value, std::string_view name);

}  // namespace millrace::text::jinja
