#pragma once

// Where a server is: the parts of a URL. Knows no socket.

#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::cli {

struct ServerUrl {
  std::string host, port = "80";
  std::string path;  // before /v1: "" or "/prefix", without a slash at its end

  std::string authority() const;  // for the Host header: "localhost:8080", "[::1]:8080"
};

/// "http://127.0.0.1:8080", "localhost:8080/prefix", "http://[::1]:8080/v1": a /v1 at the end is left out.
/// Errors: invalid_argument; unsupported for https.
Result<ServerUrl> parse_url(std::string_view text);

}  // namespace millrace::cli
