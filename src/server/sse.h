#pragma once

// Server-sent events: how a line of JSON becomes one, and the head that announces them.

#include <string>
#include <string_view>

#include "server/http.h"

namespace millrace::server {

/// "data: {json}\n\n". `json` has no line breaks.
std::string sse_data(std::string_view json);

/// "event: {name}\ndata: {json}\n\n".
std::string sse_event(std::string_view name, std::string_view json);

/// What ends a stream of OpenAI's.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

/// 200, and no cache or proxy on the way may hold events back.
HttpResponse stream_head();

}  // namespace millrace::server
