#pragma once

// The scheduler's decisions as pure functions. Arithmetic only: no pool, no clock, no log.

#include <algorithm>
#include <cstdint>

namespace millrace::sched {

/// Which requests may share the model. The same slices, the same bits: only who runs beside whom differs.
enum class Schedule : std::uint8_t {
  serial,   // one request after the other: its prefill, then its decode
  static_,  // those that wait together become a batch; the next one forms when all of it have ended
  mixed,    // whoever fits joins any step: continuous batching
};

/// Whether one more request may start in a step that began with `at_start` running ones and has `now`.
constexpr bool may_join(Schedule schedule, int at_start, int now) {
  return schedule == Schedule::serial ? now == 0 : schedule == Schedule::static_ ? at_start == 0 : true;
}

static_assert(may_join(Schedule::serial, /*at_start=*/0, /*now=*/0) && !may_join(Schedule::serial, 0, 1));
static_assert(may_join(Schedule::static_, 0, 7) && !may_join(Schedule::static_, 1, 1));
static_assert(may_join(Schedule::mixed, 3, 5));

/// Of the bound, this much is planned: what a step really takes scatters around what was expected.
inline constexpr double kAim = 0.9;

/// How long the next step should take at most, in microseconds; 0: as long as it likes.
///
///   max_step_us  what is allowed of any step; 0 = no bound. It holds when nobody decodes, too: who arrives meanwhile
///                waits for the step to end, and so does a cancel
///   tpot_slo_us  the shortest gap between tokens that a decoding request asked for; 0 = none did
///   decodes_us   what the step's decodes take alone: a wish that they break already is beyond help
constexpr double step_bound_us(std::int64_t max_step_us, std::int64_t tpot_slo_us, double decodes_us) {
  const auto most = static_cast<double>(max_step_us), wish = static_cast<double>(tpot_slo_us);
  if (tpot_slo_us == 0 || kAim * wish <= decodes_us) return most;
  return max_step_us == 0 ? wish : std::min(most, wish);
}

static_assert(step_bound_us(/*max_step_us=*/100'000, /*tpot_slo_us=*/0, /*decodes_us=*/12'000) == 100'000);
static_assert(step_bound_us(100'000, 50'000, 12'000) == 50'000);
static_assert(step_bound_us(100'000, 10'000, 12'000) == 100'000);
static_assert(step_bound_us(0, 50'000, 12'000) == 50'000);
static_assert(step_bound_us(0, 0, 12'000) == 0);

/// In how many microseconds a refused request may come again: when the `requests` and `tokens` that have to leave the
/// line before it fits have left it, at the pace at which the line moved lately. Between 0.1 s and 10 minutes.
constexpr std::int64_t retry_after_us(std::int64_t requests, std::int64_t tokens, double us_per_request, double us_per_token) {
  const double us = std::max(static_cast<double>(requests) * us_per_request, static_cast<double>(tokens) * us_per_token);
  return static_cast<std::int64_t>(std::clamp(us, 1e5, 6e8));
}

static_assert(retry_after_us(/*requests=*/1, /*tokens=*/0, /*us_per_request=*/400'000, /*us_per_token=*/1'000) == 400'000);
static_assert(retry_after_us(1, 3'000, 400'000, 1'000) == 3'000'000);
static_assert(retry_after_us(0, 0, 400'000, 1'000) == 100'000);

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

/// The least that the first prefill of a step gets when less than the rest of its block fits in time.
///
///   in_time    tokens that do fit
///   over       the step takes longer than it should without any prefill: then a block's worth makes it little worse, and
///              less would keep every prompt waiting for good
///
/// Otherwise what fits, and a quarter of a block at least: it rides on a pass over the weights that the decodes pay for.
constexpr int least_tokens(int done, int block, int in_time, bool over) {
  const int rest = block - done % block;
  return over ? rest : std::min(rest, std::max({in_time, block / 4, 1}));
}

static_assert(least_tokens(/*done=*/64, /*block=*/32, /*in_time=*/0, /*over=*/true) == 32);
static_assert(least_tokens(70, 32, 0, true) == 26);
static_assert(least_tokens(64, 32, 20, false) == 20);
static_assert(least_tokens(64, 32, 3, false) == 8);
static_assert(least_tokens(93, 32, 1, false) == 3);

/// Blocks that stay free when a sequence is admitted. One that was preempted before leaves each of the `running` ones
/// room for its next block: it would otherwise come back only to be preempted again within a block's length.
constexpr int spare_blocks(bool preempted_before, int running) { return preempted_before ? running : 0; }

/// Whether a sequence leaves its next block to another one that has been about to compute it for `idle_plans` plans and did
/// not move, though steps had room. Then it computes the block itself: waiting saves work, it must not cost a first token.
constexpr bool keeps_waiting(int idle_plans) { return idle_plans < 4; }

static_assert(keeps_waiting(/*idle_plans=*/0) && !keeps_waiting(4));

}  // namespace millrace::sched
