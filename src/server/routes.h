#pragma once

// Which endpoint answers what: one table, read by the router, by /v1/capabilities and by the documentation.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/call.h"

namespace millrace::server {

struct Route {
  std::string_view method;  // GET answers HEAD, too
  std::string_view path;    // "{}" stands for one segment: "/v1/models/{}"
  Endpoint endpoint;
  Dialect dialect = Dialect::openai;
  bool open = false;        // needs no key
  bool needs_model = true;  // 503 while it is loading
  bool on_pool = false;     // else on the connection's thread
  bool counted = false;     // against a tenant's requests per minute
  std::string_view what;    // one line
};

std::span<const Route> routes();

/// The route, and what stood for each "{}". `allowed`: the methods of the path, where only the method is wrong; empty: no such path.
struct Match {
  const Route* route = nullptr;
  std::vector<std::string> parts;
  std::string allowed;
};
Match match(std::string_view method, std::string_view path);

}  // namespace millrace::server
