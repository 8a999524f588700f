#pragma once

// What the server counts of requests beside the engine's own account of them, as plain members: request_records.h fills
// them, metrics_page.h prints them.

#include "base/metrics.h"
#include "server/counter_table.h"

namespace millrace::server {

inline constexpr std::size_t kMostTenants = 256, kMostUnknownFields = 128;

struct ServerMetrics {
  Gauge live_requests;               // of all endpoints
  CounterTable refused{32};          // by reason
  CounterTable http_requests{512};   // by "endpoint status", both from small sets
  Histogram read_us{bounds::kLatencyUs};  // from the arrival of a request to its tokens
  CounterTable tenant_requests{kMostTenants}, tenant_prompt_tokens{kMostTenants}, tenant_generation_tokens{kMostTenants};  // of what was not refused
  CounterTable unknown_fields{kMostUnknownFields};  // names that clients made up: bounded

  Gauge model_load_us;  // 0: not loaded yet
};

}  // namespace millrace::server
