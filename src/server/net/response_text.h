#pragma once

// The bytes of an answer: status line, headers, chunks. Knows no socket.

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace millrace::server::net {

/// What the connection adds to a response's own headers.
struct HeadFrame {
  std::optional<std::size_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool http_1_0 = false;  // there keep-alive has to be said
  std::string_view date, server_name;
};

/// Appends the head with the empty line behind it. Control characters in values become blanks: a header that repeats what a
/// client sent cannot end early.
void write_head(std::string& out, const HttpResponse& response, const HeadFrame& frame);

/// Appends `data` as one chunk; an empty one would end the body, so it is left out.
void write_chunk(std::string& out, std::string_view data);

inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// 1xx, 204 and 304 have none, whatever their headers say.
constexpr bool status_has_body(int status) { return status >= 200 && status != 204 && status != 304; }

/// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(std::time_t seconds);

}  // namespace millrace::server::net
