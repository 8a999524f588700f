#pragma once

// One HTTP/1 request from bytes that come in pieces of any size. Knows no socket and no clock. What two readers of the same
// bytes could understand differently is refused, so that nothing can be smuggled past a proxy (O8.11).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"
#include "server/net/http_server.h"

namespace millrace::server::net {

struct Refusal {
  int status = 0;
  std::string message;
};

class RequestParser {
 public:
  enum class State { head, body, complete, refused };

  explicit RequestParser(const ConnectionLimits& limits);
  ~RequestParser();

  /// Returns how many of `bytes` were used; the caller presents the rest again, with more behind it. Stops at the end of the
  /// head and at the end of the request, so that what comes next is left.
  std::size_t feed(std::string_view bytes);

  State state() const;
  const Refusal& refusal() const;  // of State::refused

  /// Method, path, query and headers from State::body on, the body in State::complete.
  HttpRequest& request();

  // These are known from State::body on.
  bool keep_alive() const;
  std::optional<std::uint64_t> content_length() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::server::net
