#pragma once

// A trace of requests against two ways to hand out the same token slots of KV cache: our scheduler and block pool, and an
// allocator that reserves one contiguous piece for the longest answer. Integers only: no model runs, a step takes a fixed
// time, and one step writes at most `step_tokens` tokens either way.

#include <vector>

#include "cli/trace.h"
#include "sched/cache_state.h"

namespace millrace::cli {

inline constexpr int kReplayVocab = 1 << 15;  // of prompts and of what is drawn

struct KvReplayOptions {
  int pool_tokens = 32768;  // slots in the pool
  int block_tokens = 32;
  int step_tokens = 512;
  int max_running = 512;
  double step_s = 0.05;
  double speed = 1;  // arrival times are divided by it
};

/// What became of the slots. Means are over the steps in which a request waits for room; over all steps when none ever
/// does.
struct KvUse {
  double utilisation = 0;       // slots that hold a token, of the slots reserved; a shared block counts once
  double pool_utilisation = 0;  // the same, of all slots there are
  int max_batch = 0;            // most sequences in one step
  int failures = 0;             // requests that an empty pool could not hold
  int preemptions = 0;
  double prefix_hit_rate = 0;   // prompt tokens that were found, of all
  int steps = 0, steps_waiting = 0;
  double host_us = 0;           // wall time of plan and commit, of one step; 0 for the contiguous one
  sched::CacheState fullest;    // at the step of max_batch; ours only
};

/// `prompts`: of `trace`, prompts_of() a vocabulary of kReplayVocab.
KvUse replay_paged(const std::vector<TraceRequest>& trace, const std::vector<std::vector<TokenId>>& prompts, const KvReplayOptions& options);

/// What a request reserves when it starts, as one piece, first fit, until it ends. Nobody knows how long an answer gets.
enum class Reserve {
  answer,   // its prompt and the longest answer in the trace
  context,  // the longest prompt plus answer in the trace: every sequence could be that one
  exact,    // its prompt and its own answer: what only an oracle can do
};
KvUse replay_contiguous(const std::vector<TraceRequest>& trace, Reserve reserve, const KvReplayOptions& options);

}  // namespace millrace::cli
