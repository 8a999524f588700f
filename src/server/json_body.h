#pragma once

// A request's body as JSON, strictly: what is ambiguous or hostile is refused before anybody looks at a field.

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/chat_template.h"

namespace millrace::server {

/// Deepest nesting, and the most values of a body: both far above what any client sends.
inline constexpr int kMostDepth = 128;
inline constexpr std::size_t kMostValues = 4'000'000;

/// One JSON object in UTF-8, nothing behind it. Errors: invalid_argument: empty; not UTF-8; not JSON (with the byte and
/// what stood there); no object; a key twice; a lone surrogate escape; too deep. The time is linear, the stack bounded.
Result<text::Json> parse_body(std::string_view body);

/// `value` on one line, as answers are written: invalid UTF-8 never occurs here, and would become U+FFFD.
std::string dump(const text::Json& value);

}  // namespace millrace::server
