#pragma once

// Where the server stands in its life, and what /health and /ready say of it. Health: the process is there and its model is
// loaded. Ready: and it gives answers now. Knows no engine: whoever asks brings its pulse.

#include <atomic>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "server/http.h"

namespace millrace::server {

enum class Phase { loading, ready, draining, stopped, failed };
std::string_view to_string(Phase phase);

/// loading -> ready -> draining -> stopped; loading -> failed. A step back does nothing: whoever drains while the model loads
/// is not made ready by its end. Any thread.
class ServerState {
 public:
  void loading(double share);  // 0 to 1; never falls
  void ready();
  void drain();
  void stop();
  void fail(std::string why);  // one sentence

  Phase phase() const { return phase_.load(); }
  int percent() const { return percent_.load(); }
  std::string failure() const;

 private:
  bool advance(Phase to);

  std::atomic<Phase> phase_{Phase::loading};
  std::atomic<int> percent_{0};
  mutable std::mutex mutex_;
  std::string failure_;
};

/// 200 {"status": "ok"} from ready on; 503 before, {"status": "loading", "percent": 42}, and after a failure.
HttpResponse health_response(const ServerState& state);

/// How the engine does.
struct Pulse {
  Microseconds silent_us = 0;    // Engine::pulse()
  Microseconds max_step_us = 0;  // the bound of its steps; 0: none
  std::int64_t running = 0, waiting = 0;

  /// So long may work wait for a step: ten of them, and for steps that have a bound in milliseconds, or none, long enough
  /// for a machine that swaps or is suspended.
  Microseconds patience_us() const;
};

/// 200 only when the server is ready and, if requests are open, the last step ended within the patience.
HttpResponse ready_response(const ServerState& state, const Pulse& pulse);

}  // namespace millrace::server
