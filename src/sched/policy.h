#pragma once

// The scheduler's decisions as pure functions. Arithmetic only: no pool, no clock, no log.

#include <algorithm>
#include <cstdint>

namespace millrace::sched {

/// How many of the `behind` tokens of one sequence run in this step.
///
///   done    tokens already in the KV cache
///   behind  tokens known but not in the KV cache yet; 1 for a decode
///   budget  tokens left in this step
///   block   tokens per KV block
///
/// All of them when they fit. Otherwise up to the last block boundary that fits, so that every block written is full
/// and can be shared; possibly 0 ("wait").
constexpr int chunk_tokens(int done, int behind, int budget, int block) {
  if (behind <= budget) return behind;
  return std::max((done + budget) / block * block - done, 0);
}

static_assert(chunk_tokens(/*done=*/7, /*behind=*/1, /*budget=*/1, /*block=*/16) == 1);  // a decode always runs
static_assert(chunk_tokens(0, 40, 100, 16) == 40);
static_assert(chunk_tokens(0, 40, 35, 16) == 32);
static_assert(chunk_tokens(32, 8, 5, 16) == 0);
static_assert(chunk_tokens(37, 40, 20, 16) == 11);  // from 37 to the boundary at 48

/// What is kept back, out of `budget`, for one of `n` prefills while older ones are served: all it needs if that is
/// no more than an equal share, else nothing. Short prompts so never stand behind a long one, and long ones run one
/// after the other: taking turns would delay the first token of each to the end of all.
constexpr int kept_for(int behind, int budget, int n) { return behind <= budget / n ? behind : 0; }

static_assert(kept_for(/*behind=*/20, /*budget=*/512, /*n=*/2) == 20);
static_assert(kept_for(300, 512, 2) == 0);
static_assert(kept_for(1, 2, 3) == 0);

/// Who goes first, and so who is preempted last.
struct Rank {
  int priority = 0;
  std::int64_t arrival = 0;
};

constexpr bool runs_before(Rank a, Rank b) {
  return a.priority != b.priority ? a.priority > b.priority : a.arrival < b.arrival;
}

static_assert(runs_before({.priority = 1, .arrival = 9}, {.priority = 0, .arrival = 1}));
static_assert(runs_before({0, 1}, {0, 9}));

/// Blocks that stay free when a sequence is admitted. One that was preempted before leaves each of the `running` ones
/// room for its next block: it would otherwise come back only to be preempted again within a block's length.
constexpr int spare_blocks(bool preempted_before, int running) { return preempted_before ? running : 0; }

/// Whether a sequence leaves its next block to another one that has been about to compute it for `idle_plans` plans and did
/// not move, though steps had room. Then it computes the block itself: waiting saves work, it must not cost a first token.
constexpr bool keeps_waiting(int idle_plans) { return idle_plans < 4; }

static_assert(keeps_waiting(/*idle_plans=*/0) && !keeps_waiting(4));

}  // namespace millrace::sched
