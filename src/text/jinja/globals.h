#pragma once

// The functions every chat template can call: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.

#include <span>

#include "text/jinja/methods.h"

namespace millrace::text::jinja {

std::span<const MethodEntry> globals();

/// joiner(): nothing the first time, the separator afterwards.
Value call_joiner(Workspace& ws, Joiner& joiner);

}  // namespace millrace::text::jinja
