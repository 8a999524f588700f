#pragma once

// What may follow `is`: defined, string, mapping, equalto, ...

#include <string_view>

#include "text/jinja/methods.h"

namespace millrace::text::jinja {

/// The test `name`, or nullptr.
const MethodEntry* find_test(std::string_view name);

bool apply_test(Workspace& ws, const MethodEntry* test, std::string_view name, const Value& subject, Args& args);

}  // namespace millrace::text::jinja
