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

text::Json body_of(const ServerState& state, Phase phase) {
  text::Json body = {{"status", to_string(phase)}};
  if (phase == Phase::loading) body["percent"] = state.percent();
  if (phase == Phase::failed) body["error"] = state.failure();
  return body;
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::loading: return "loading";
    case Phase::ready: return "ok";
    case Phase::draining: return "draining";
    case Phase::stopped: return "stopped";
    case Phase::failed: return "failed";
  }
  return "";
}

bool ServerState::advance(Phase to) {
  Phase from = phase_.load();
  do {
    const bool forward = from < to && from != Phase::failed && (to != Phase::failed || from == Phase::loading);
    if (!forward) return false;
  } while (!phase_.compare_exchange_weak(from, to));
  return true;
}

void ServerState::loading(double share) {
  // 100 is said by "ok" only. What is no number is no progress.
  const int percent = share > 0 ? static_cast<int>(std::min(share, 0.99) * 100 + 1e-9) : 0;
  int before = percent_.load();
  while (before < percent && !percent_.compare_exchange_weak(before, percent)) {}
}

void ServerState::ready() { advance(Phase::ready); }
void ServerState::drain() { advance(Phase::draining); }
void ServerState::stop() { advance(Phase::stopped); }

void ServerState::fail(std::string why) {
  const std::lock_guard lock(mutex_);
  if (phase_.load() == Phase::loading) failure_ = std::move(why);
  advance(Phase::failed);
}

std::string ServerState::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

HttpResponse health_response(const ServerState& state) {
  const Phase phase = state.phase();
  const bool healthy = phase == Phase::ready || phase == Phase::draining;
  return healthy ? ok(body_of(state, phase)) : unavailable(body_of(state, phase));
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
