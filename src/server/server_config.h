#pragma once

// How a server behaves, as plain values: the command line fills it.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/net/http_server.h"

namespace millrace::server {

struct ServerConfig {
  std::vector<ListenAt> at;
  std::optional<ListenAt> metrics_at;  // /metrics, /health and /ready there, too; then /metrics is nowhere else
  TlsFiles tls;
  ConnectionLimits limits;
  int io_threads = 1, pool_threads = 1;

  std::string api_keys_file;          // "": no file
  std::vector<std::string> api_keys;  // beside it. With neither, everybody may ask
  std::string cors_origin;            // "": no cross-origin headers; "*" or an origin
  std::size_t max_answers = 0;        // of one request: what may run and wait together; 0: no limit
  bool strict = false;                // unknown request fields are refused
  std::string metrics_prefix = "millrace_";
  bool log_prompts = false;
  Microseconds max_step_us = 0;       // what /ready measures by
  std::string version;
  std::vector<Header> build;          // labels of the metric build_info: version, isa ...

  std::size_t max_stored_responses = 1024;    // of /v1/responses
  std::size_t max_stored_bytes = 64 << 20;
};

}  // namespace millrace::server
