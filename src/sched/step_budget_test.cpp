// The budget in milliseconds, against machines that the scheduler does not know: whatever arrives, a step beside decodes
// stays under the bound, prompts move in every step, and prompts are not slower than they have to be.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

constexpr int kBlock = 16;

std::vector<TokenId> random_prompt(std::mt19937& rng, int n) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 50'000);
  return tokens;
}

/// Weights are read once a step, tokens are computed: the slower of the two counts, and attention on top.
struct Machine {
  double read_us, token_us, attend_us, row_us;
  double step_us(const StepWork& w) const {
    return std::max(read_us, token_us * w.tokens) + 0.2 * read_us + attend_us * static_cast<double>(w.attended) + row_us * w.rows;
  }
};

/// A scheduler on a machine, with a clock that runs by what steps take.
class Bench {
 public:
  Bench(Limits limits, Machine machine) : groups_({{kBlock, 0, 4096}}, 2 * limits.step_tokens), sched_(limits, groups_), machine_(machine) {}

  void add(int id, std::vector<TokenId> prompt, int max_new) {
    left_[id] = max_new;
    ASSERT_TRUE(sched_.add({id}, {.prompt = std::move(prompt), .max_new = max_new, .arrival_us = now_us_}));
  }

  /// What the step took; `scatter` times what the machine takes.
  double step(double scatter = 1) {
    sched_.plan(step_, now_us_);
    const double us = machine_.step_us(step_.work) * scatter;
    now_us_ += static_cast<std::int64_t>(us);
    const TokenId token = 5;
    accepted_.assign(step_.slices.size(), {});
    for (std::size_t i = 0; i < step_.slices.size(); ++i)
      if (step_.slices[i].draws) accepted_[i] = std::span(&token, 1);
    sched_.commit(step_, accepted_, {now_us_, static_cast<std::int64_t>(us)});
    for (const Slice& slice : step_.slices)
      if (slice.draws && --left_[slice.seq.value] == 0) sched_.remove(slice.seq);
    return us;
  }

  /// What the last step may have taken whatever the bound: its decodes, and a quarter of a block; or a block, when the
  /// decodes fill the bound.
  double least_us(double bound_us) const {
    StepWork least;
    for (const Slice& slice : step_.slices)
      if (slice.decode) least.add(slice.first, 1, 1, true);
    const int most = machine_.step_us(least) > 0.8 * bound_us ? kBlock : kBlock / 4;
    for (const Slice& slice : step_.slices)
      if (!slice.decode) return least.add(slice.first, std::min(slice.count, most), 1, false), machine_.step_us(least);
    return machine_.step_us(least);
  }

  int n_decodes() const { return static_cast<int>(std::ranges::count(step_.slices, true, &Slice::decode)); }
  const StepPlan& last() const { return step_; }
  const Scheduler& sched() const { return sched_; }
  std::int64_t now_us() const { return now_us_; }

 private:
  kv::CacheGroups groups_;
  Scheduler sched_;
  Machine machine_;
  StepPlan step_;
  std::vector<std::span<const TokenId>> accepted_;
  std::map<int, int> left_;
  std::int64_t now_us_ = 0;
};

TEST(StepBudget, steps_beside_decodes_stay_within_a_tenth_of_the_bound_on_any_machine_whatever_arrives_100_seeds) {  // P8
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
    const double read_us = 1000 * std::exp(0.03 * pick(100)), token_us = read_us * (0.05 + 0.001 * pick(100));
    const Machine machine{read_us, token_us, token_us * 1e-4 * pick(4), token_us * 0.01 * pick(50)};
    const double bound_us = 20'000.0 * (1 + pick(10));
    Bench bench({.step_tokens = 512, .step_outputs = 64, .max_running = 12, .max_step_us = static_cast<std::int64_t>(bound_us)}, machine);
    int id = 0, over = 0, steps = 0;
    for (int i = 0; i < 3; ++i) bench.add(id++, random_prompt(rng, 20), 400);
    for (int i = 0; i < 300; ++i) {
      if (pick(20) == 0 && bench.sched().n_waiting() < 4) bench.add(id++, random_prompt(rng, 1 + pick(pick(4) ? 200 : 3000)), 1 + pick(60));
      const double us = bench.step(0.95 + 0.001 * pick(100));
      if (bench.last().slices.empty()) break;
      if (i < 40 || bench.n_decodes() == 0) continue;
      ++steps;
      over += us > std::max(1.1 * bound_us, 1.1 * bench.least_us(bound_us));
    }
    EXPECT_LE(over, steps / 50);
  }
}

TEST(StepBudget, one_slow_step_makes_neither_giants_nor_dwarfs_of_the_next_ones) {
  std::mt19937 rng(1);
  Bench bench({.step_tokens = 512, .step_outputs = 64, .max_running = 8, .max_step_us = 100'000}, {12'000, 900, 0.3, 200});
  for (int i = 0; i < 3; ++i) bench.add(i, random_prompt(rng, 20), 2000);
  bench.add(9, random_prompt(rng, 8000), 2);
  for (int i = 0; i < 30; ++i) bench.step();
  const int before = bench.last().work.prompt_tokens;
  EXPECT_GE(before, 3 * kBlock);
  bench.step(/*scatter=*/50);
  for (int i = 0; i < 30; ++i) {
    EXPECT_LE(bench.step(), 110'000);
    EXPECT_GE(bench.last().work.prompt_tokens, before - kBlock);
  }
}

TEST(StepBudget, a_long_prompt_beside_three_streams_has_its_first_token_a_quarter_later_at_most) {  // P8
  const auto first_token_us = [](int n_streams) {
    std::mt19937 rng(1);
    // 0.9 ms a prompt token, 12 ms a decode.
    Bench bench({.step_tokens = 512, .step_outputs = 64, .max_running = 8, .max_step_us = 100'000}, {10'000, 900, 0.05, 200});
    for (int i = 0; i < n_streams; ++i) bench.add(i, random_prompt(rng, 20), 2000);
    for (int i = 0; i < 30 && n_streams > 0; ++i) bench.step();
    bench.add(9, random_prompt(rng, 4000), 2);
    const std::int64_t arrived_us = bench.now_us();
    for (int i = 0; i < 1000; ++i) {
      bench.step();
      for (const Slice& slice : bench.last().slices)
        if (slice.seq.value == 9 && slice.draws) return bench.now_us() - arrived_us;
    }
    return std::int64_t{0};
  };
  const std::int64_t alone = first_token_us(0), beside = first_token_us(3);
  ASSERT_GT(alone, 3'000'000);
  EXPECT_LE(static_cast<double>(beside), 1.25 * static_cast<double>(alone));
}

TEST(StepBudget, decodes_that_are_over_the_bound_alone_say_so_and_prompts_still_move) {
  std::mt19937 rng(1);
  Bench bench({.step_tokens = 512, .step_outputs = 64, .max_running = 16, .max_step_us = 20'000}, {12'000, 3'000, 0.05, 200});
  for (int i = 0; i < 12; ++i) bench.add(i, random_prompt(rng, 20), 500);
  for (int i = 0; i < 60; ++i) bench.step();
  ASSERT_EQ(bench.n_decodes(), 12);
  EXPECT_TRUE(bench.last().decodes_over_bound);
  bench.add(20, random_prompt(rng, 160), 5);
  for (int i = 0; i < 10; ++i) {
    bench.step();
    EXPECT_EQ(bench.last().work.prompt_tokens, kBlock);
  }
  bench.step();
  EXPECT_EQ(bench.n_decodes(), 13);
}

}  // namespace
}  // namespace millrace::sched
