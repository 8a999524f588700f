#pragma once

// What the server counts of requests, as plain members: request_records.h fills them, metrics_page.h prints them. What
// the engine and the connections count, they count themselves.

#include <array>
#include <atomic>

#include "base/clock.h"
#include "base/metrics.h"
#include "engine/engine.h"
#include "server/counter_table.h"

namespace millrace::server {

inline constexpr int kFinishes = 5;  // of engine::Finish
inline constexpr std::size_t kMostTenants = 256, kMostUnknownFields = 128;

/// A request is either refused or started. Every answer of a started one ends in exactly one of `finished` and is in each
/// of the histograms that has a value for it: e2e, queue and the token counts always, prefill and the first token once it
/// had one, decode once it had two. So `finished` sums to what e2e counts, cancelled or not.
struct ServerMetrics {
  std::array<Counter, kFinishes> finished;  // answers, by engine::Finish
  Histogram e2e_us{bounds::kLatencyUs}, queue_us{bounds::kLatencyUs}, first_token_us{bounds::kLatencyUs};
  Histogram prefill_us{bounds::kLatencyUs}, decode_us{bounds::kLatencyUs};
  Histogram prompt_tokens{bounds::kTokens}, generation_tokens{bounds::kTokens};

  Gauge live_requests;  // of all endpoints
  CounterTable refused{32};                       // by reason
  CounterTable http_requests{512};                // by "endpoint status", both from small sets
  CounterTable tenant_requests{kMostTenants}, tenant_prompt_tokens{kMostTenants}, tenant_generation_tokens{kMostTenants};
  CounterTable unknown_fields{kMostUnknownFields};  // names that clients made up: bounded

  std::atomic<Microseconds> model_load_us{0};  // 0: not loaded yet
};

}  // namespace millrace::server
