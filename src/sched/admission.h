#pragma once

// Whether a request could run if it were alone. A value without state, so that any thread may ask before it queues
// anything; what passes here is never refused later.

#include <cstdint>

#include "base/result.h"
#include "sched/sequence.h"

namespace millrace::sched {

struct Limits {
  int step_tokens = 0;   // tokens per step, all slices together; >= max_running
  int step_outputs = 0;  // rows that come back from one step; >= max_running
  int max_running = 0;   // sequences per step; >= 1

  Schedule schedule = Schedule::mixed;
  std::int64_t max_step_us = 0;  // what a step may be expected to take; 0: steps are bounded by tokens only
  std::int64_t max_wait_us = 0;  // who has waited that long is next, whatever its priority; 0: may wait for ever
};

struct Admission {
  Limits limits;
  int room_tokens = 0;  // what an empty pool holds of one sequence

  /// The most positions a prompt that runs as a whole may have, beside a full set of decodes.
  int most_whole(bool rows) const;

  /// Errors: exhausted (prompt plus new tokens exceed the pool, or a whole prompt exceeds a step), invalid_argument
  /// (hidden rows or a whole prompt together with new tokens); with the numbers. `spec.prompt` is not looked at.
  Result<void> check(std::int64_t prompt_tokens, const SequenceSpec& spec) const;
};

}  // namespace millrace::sched
