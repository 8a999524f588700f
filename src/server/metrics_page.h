#pragma once

// /metrics: what was counted, in Prometheus' text format 0.0.4. Names and units are vLLM's where it has them. Reads atomics
// only: no scrape makes the engine wait.

#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/http.h"
#include "server/server_metrics.h"

namespace millrace::server {

struct HttpServerMetrics;

struct MetricsSources {
  std::string prefix = "millrace_";  // "vllm:" for boards that expect its names
  const ServerMetrics* server = nullptr;
  const HttpServerMetrics* http = nullptr;       // or none
  const engine::EngineMetrics* engine = nullptr;  // none while the model loads: its families are there, at 0
  std::vector<Header> build;                     // labels of build_info: version, isa, model ...
};

HttpResponse metrics_response(const MetricsSources& sources);
std::string metrics_page(const MetricsSources& sources);

/// 1 to 64 letters, digits, '_' and ':'; no digit first. Errors: invalid_argument.
Result<void> check_metrics_prefix(const std::string& prefix);

}  // namespace millrace::server
