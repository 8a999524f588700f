#pragma once

// Where the server stands in its life, and what /health and /ready say of it. Health: the process is there and its model is
// loaded. Ready: and it gives answers now. Knows no engine: whoever asks brings its pulse.

#include <atomic>

#include "base/clock.h"
#include "server/http.h"

namespace millrace::server {

enum class Phase { loading, ready, draining };

/// loading -> ready -> draining. A step back does nothing: whoever drains while the model loads is not made ready by its end.
/// A model that cannot be loaded ends the process. Any thread.
class ServerState {
 public:
  void loading(double share);  // 0 to 1; never falls
  void ready();
  void drain();

  Phase phase() const { return phase_.load(); }
  int percent() const { return percent_.load(); }

 private:
  std::atomic<Phase> phase_{Phase::loading};
  std::atomic<int> percent_{0};
};

/// 200 {"status": "ok"} from ready on; 503 before, {"status": "loading", "percent": 42}.
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
