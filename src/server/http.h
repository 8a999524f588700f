#pragma once

// HTTP as the server's own words: what was asked, what is answered, and the exchange between the two. Knows no socket
// (net/ has them) and no API.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace millrace::server {

struct Header { std::string name, value; };  // the name in lower case

/// As read from the wire: sizes are within their limits, lengths do not contradict each other, the path is decoded and
/// valid UTF-8. The body is any bytes.
struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/v1/models", without the query
  std::vector<std::pair<std::string, std::string>> query;  // in order, decoded
  std::vector<Header> headers;
  std::string body;
  std::string peer;  // "127.0.0.1:40312", "[::1]:40312" or "unix"
  bool http_1_0 = false;
  Microseconds arrived_us = 0;  // steady clock: when it was complete

  /// The first header of that (lower case) name, or nullptr.
  const std::string* header(std::string_view name) const {
    for (const Header& one : headers)
      if (one.name == name) return &one.value;
    return nullptr;
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers;  // beside content-type, content-length, date, connection
  std::string body;
};

/// One request and its answer. Either respond(), or start_stream(), any number of write()s, end_stream(). Any thread may
/// call; what is called takes effect in order on the connection's own thread, and nothing here waits. When the client is
/// gone, all of it does nothing. Dropping an exchange that was not answered answers 500; dropping one in the middle of a stream
/// cuts the connection, so that the client sees a broken stream and not a short one.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;

  virtual void respond(HttpResponse response) = 0;

  /// The head goes out at once; head.body is empty. HTTP/1.0 has no chunks: there the stream ends with the connection. Each
  /// write() of a text/event-stream is whole events: a comment may be put between two, to find out if anybody is there.
  virtual void start_stream(HttpResponse head) = 0;
  virtual void write(std::string data) = 0;
  virtual void end_stream() = 0;

  /// `gone` is called once, on the connection's thread, if the client leaves before the answer is through, or does not
  /// read for the write timeout, or leaves more than ConnectionLimits::max_unsent_bytes unread. At once if that has
  /// happened already. It is forgotten when the answer is through, so it may hold the exchange (which is then not dropped
  /// by being let go elsewhere).
  virtual void on_gone(std::function<void()> gone) = 0;

  /// Runs `task` on the connection's thread, after what was called before; also when the client is gone, but not when the
  /// server is.
  virtual void post(std::function<void()> task) = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;

/// Called on a connection's thread, so it must not block: what takes longer than some tens of microseconds goes to a pool.
using Handler = std::function<void(ExchangePtr)>;

}  // namespace millrace::server
