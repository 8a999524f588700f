#include "server/health.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/json_body.h"

namespace millrace::server {
namespace {

constexpr Microseconds kLeastPatience = 5'000'000;
constexpr int kRetrySeconds = 1;

HttpResponse unavailable(text::Json body) {
  HttpResponse response;
  response.status = 503;
  response.headers.push_back({"retry-after", std::to_string(kRetrySeconds)});
  response.body = dump(body);
  return response;
}

HttpResponse ok(text::Json body) {
  HttpResponse response;
  response.body = dump(body);
  return response;
}

std::string_view word_of(Phase phase) {
  switch (phase) {
    case Phase::loading: return "loading";
    case Phase::ready: return "ok";
    case Phase::draining: return "draining";
  }
  return "";
}

text::Json body_of(const ServerState& state, Phase phase) {
  text::Json body = {{"status", word_of(phase)}};
  if (phase == Phase::loading) body["percent"] = state.percent();
  return body;
}

}  // namespace

void ServerState::loading(double share) {
  // 100 is said by "ok" only. What is no number is no progress.
  const int percent = share > 0 ? static_cast<int>(std::min(share, 0.99) * 100 + 1e-9) : 0;
  int before = percent_.load();
  while (before < percent && !percent_.compare_exchange_weak(before, percent)) {}
}

void ServerState::ready() {
  Phase from = Phase::loading;
  phase_.compare_exchange_strong(from, Phase::ready);
}

void ServerState::drain() { phase_ = Phase::draining; }

HttpResponse health_response(const ServerState& state) {
  const Phase phase = state.phase();
  return phase == Phase::loading ? unavailable(body_of(state, phase)) : ok(body_of(state, phase));
}

Microseconds Pulse::patience_us() const { return std::max(10 * max_step_us, kLeastPatience); }

HttpResponse ready_response(const ServerState& state, const Pulse& pulse) {
  const Phase phase = state.phase();
  if (phase != Phase::ready) return unavailable(body_of(state, phase));
  const bool stuck = pulse.silent_us > pulse.patience_us();
  text::Json body = {{"status", stuck ? "stuck" : "ok"}, {"running", pulse.running}, {"waiting", pulse.waiting}, {"silent_ms", pulse.silent_us / 1000},
                     {"patience_ms", pulse.patience_us() / 1000}};
  return stuck ? unavailable(std::move(body)) : ok(std::move(body));
}

}  // namespace millrace::server
