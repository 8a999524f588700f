#pragma once

// Variables by name, and macros as values: a definition and the scope it was defined in.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

struct MacroDefinition;

struct Scope : Object {
  explicit Scope(Scope* p) : Object(Kind::undefined), parent(p) {}

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent)
      for (const auto& [key, value] : scope->variables)
        if (key == name) return &value;
    return nullptr;
  }
  void set(std::string_view name, const Value& value) {
    for (auto& [key, old] : variables)
      if (key == name) return void(old = value);
    variables.emplace_back(name, value);
  }

  Scope* parent;
  std::vector<std::pair<std::string_view, Value>> variables;  // names belong to the tree or the rendering's variables
};

struct Macro : Object {
  Macro(const MacroDefinition& d, Scope& s) : Object(Kind::macro), definition(&d), scope(&s) {}
  const MacroDefinition* definition;
  Scope* scope;
};

/// "<Macro 'name'>", as it prints.
std::string describe_macro(const Macro& macro);

std::optional<Value> macro_attribute(Workspace& ws, const Macro& macro, std::string_view name);

}  // namespace millrace::text::jinja
