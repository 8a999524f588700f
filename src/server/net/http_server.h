#pragma once

// Listens and talks HTTP/1.1 and 1.0 over TCP, TLS and UNIX sockets. Knows no path and no API: each complete request
// becomes an Exchange for the handler. A slow, silent or hostile client costs its own connection and nothing else.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "server/http.h"

namespace millrace::server {

/// What one client may take. Times run from the last progress, header_timeout from the first byte of a request,
/// body_total_timeout from the end of its head.
struct ConnectionLimits {
  std::size_t header_bytes = 64 << 10;  // request line and headers; more is 431
  std::size_t body_bytes = 16 << 20;    // more is 413
  std::size_t all_body_bytes = 256 << 20;  // of all clients together, while they are read and answered, and their whole answers above 64 KiB; more is 503
  std::chrono::milliseconds header_timeout{10'000}, body_timeout{30'000}, body_total_timeout{300'000}, idle_timeout{75'000},
      write_timeout{30'000};
  std::size_t max_unsent_bytes = 2 << 20;  // of a stream; more, and the client is gone. An answer in one piece may be larger
  std::size_t max_connections = 16'384;    // more are told 503 and closed; fewer where the process may open fewer files
};

/// One of the places to listen at: host and port, or a UNIX socket's path, or a descriptor that listens already.
struct ListenAt {
  std::string host = "127.0.0.1";  // a name may have two addresses: "localhost" is IPv4 and IPv6 where both are there
  int port = 0;                    // 0: a free one
  std::string unix_path;
  int descriptor = -1;
  bool tls = false;
};

struct TlsFiles { std::string certificate, key; };  // PEM; a chain is fine

struct HttpServerOptions {
  std::vector<ListenAt> at;
  TlsFiles tls;
  ConnectionLimits limits;
  int io_threads = 1;
  std::string server_name = "millrace";
  /// The answer to what is no request: status and one sentence in, response out. Any thread. Without one: plain text.
  std::function<HttpResponse(int status, const std::string& message)> refusal;
  /// Asked about a request that has a body, before the body is read (`head.body` is empty): an answer that needs no body,
  /// 404, 405 or 401, or nothing. The handler does not see a request that was answered here. Any thread.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> on_head;
};

struct HttpServerMetrics {
  Gauge connections;
  Counter connections_total, refused_connections_total, bad_requests_total, timeouts_total, sent_bytes_total, received_bytes_total;
};

class HttpServer {
 public:
  /// Listens; nothing is accepted before start(). Errors: invalid_argument and exhausted, naming address, port and reason
  /// (in use, no permission, not an address of this machine, does not resolve; certificate or key that cannot be read).
  static Result<std::unique_ptr<HttpServer>> listen(HttpServerOptions options);

  virtual ~HttpServer() = default;  // closes everything, joins its threads

  virtual void start(Handler handler) = 0;

  /// "127.0.0.1:8080", "unix:/run/m.sock": where it listens, in the order of options.at, with the ports that it got.
  virtual std::vector<std::string> addresses() const = 0;

  /// No new connections and no new requests: nobody listens when it returns (it waits a second at most), idle connections close, busy ones after their answer. Any thread but its own.
  virtual void stop_accepting() = 0;

  /// True once every connection has closed. Errors never; false after `timeout`.
  virtual bool wait_until_idle(std::chrono::milliseconds timeout) = 0;

  /// Reads certificate and key again, for the connections to come; on an error the old ones stay. Without TLS there is
  /// nothing to read. Any thread.
  virtual Result<void> reload_tls() = 0;

  virtual const HttpServerMetrics& metrics() const = 0;
};

}  // namespace millrace::server
