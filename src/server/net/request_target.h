#pragma once

// The target of a request line, "/v1/models?limit=2", as a decoded path and query. Knows no route.

#include <string_view>

#include "base/result.h"
#include "server/http.h"

namespace millrace::server::net {

/// Fills path and query of `request`, whose method is known. Error: invalid_argument, for what is no valid UTF-8 or holds
/// a zero byte once decoded, for an escape that is none, and for a target that is no path ("*" is the one of OPTIONS).
Result<void> parse_target(std::string_view target, HttpRequest& request);

}  // namespace millrace::server::net
