#pragma once

// The filters of Jinja2, and the three that chat templates add or replace: tojson without HTML escapes, with options.

#include <span>
#include <string_view>

#include "text/jinja/methods.h"

namespace millrace::text::jinja {

/// The filter `name`, or nullptr. An entry whose `run` is nullptr exists in Jinja2 but not here.
const MethodEntry* find_filter(std::string_view name);

/// Applies it, or raises that there is none.
Value apply_filter(Workspace& ws, const MethodEntry* filter, std::string_view name, const Value& subject, Args& args);

std::span<const MethodEntry> text_filters();
std::span<const MethodEntry> sequence_filters();
std::span<const MethodEntry> select_filters();
std::span<const MethodEntry> value_filters();

/// Items reached by a dotted path, as `attribute=` of many filters: "function.name", 0, or none for the item itself.
class AttributePath {
 public:
  AttributePath(Workspace& ws, const Value& path);
  Value of(Workspace& ws, const Value& start) const;

 private:
  std::vector<Value> parts_;
};

/// For sorting and comparing without regard to case: strings in lower case, anything else as it is.
Value ignoring_case(Workspace& ws, const Value& value, bool case_sensitive);

}  // namespace millrace::text::jinja
