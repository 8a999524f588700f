#include "sched/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace millrace::sched {
namespace {

StepWork decodes(int n, int context) {
  StepWork work;
  for (int i = 0; i < n; ++i) work.add(context, 1, 1, true);
  return work;
}

StepWork chunk(int first, int count, StepWork beside = {}) {
  beside.add(first, count, 0, false);
  return beside;
}

/// A machine of which the model does not know the form: weights are read once, tokens are computed, the slower counts.
double machine_us(const StepWork& work, double read_us, double token_us, double attend_us) {
  return std::max(read_us, token_us * work.tokens) + 0.1 * read_us + attend_us * static_cast<double>(work.attended) +
         0.3 * token_us * work.rows;
}

TEST(CostModel, one_small_step_says_how_large_the_model_is) {
  CostModel small, large;
  small.observe(decodes(1, 1), 3'300);
  large.observe(decodes(1, 1), 150'000);
  EXPECT_LE(small.tokens_within(90'000, 0, 4096), 128);  // no prompt was seen
  small.observe(chunk(0, 128), small.step_us(chunk(0, 128)));
  EXPECT_NEAR(small.step_us(decodes(1, 1)), 3'300, 1);
  EXPECT_NEAR(large.step_us(decodes(1, 1)), 150'000, 10);
  EXPECT_GT(small.tokens_within(90'000, 0, 4096), 200);
  EXPECT_LT(large.tokens_within(90'000, 0, 4096), 20);
}

TEST(CostModel, tokens_within_is_the_inverse_of_more_us) {
  CostModel cost;
  cost.observe(decodes(1, 1), 12'000);
  cost.observe(chunk(0, 400), cost.step_us(chunk(0, 400)));
  for (const int first : {0, 33, 5000})
    for (const double us : {-5.0, 0.0, 900.0, 50'000.0, 1e9}) {
      const int n = cost.tokens_within(us, first, 700);
      EXPECT_TRUE(n == 0 || cost.more_us(first, n) <= us);
      EXPECT_TRUE(n == 700 || cost.more_us(first, n + 1) > us);
    }
}

TEST(CostModel, learns_any_machine_within_twenty_steps_of_each_kind_for_100_seeds) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
    const double read_us = std::exp(8 + 0.01 * pick(400)), token_us = read_us * (0.04 + 0.001 * pick(100));
    const double attend_us = token_us * 1e-4 * (1 + pick(5));
    const auto take = [&](const StepWork& work) { return machine_us(work, read_us, token_us, attend_us) * (0.97 + 0.0006 * pick(100)); };
    CostModel cost;
    for (int i = 0; i < 40; ++i) {
      const StepWork beside = decodes(1 + pick(6), 50 + pick(500));
      const StepWork work = i % 2 ? beside : chunk(32 * pick(60), 32 + 32 * pick(4), beside);
      cost.observe(work, take(work));
    }
    for (int i = 0; i < 20; ++i) {
      const StepWork work = chunk(32 * pick(60), 64, decodes(1 + pick(6), 300));
      const double real = machine_us(work, read_us, token_us, attend_us);
      EXPECT_NEAR(cost.step_us(work), real, 0.2 * real);
    }
  }
}

TEST(CostModel, one_slow_step_moves_no_prediction_by_a_tenth) {
  CostModel cost;
  const StepWork decode = decodes(3, 200), mixed = chunk(64, 64, decode);
  for (int i = 0; i < 60; ++i) {
    cost.observe(decode, machine_us(decode, 12'000, 900, 0.3));
    cost.observe(mixed, machine_us(mixed, 12'000, 900, 0.3));
  }
  const double decode_us = cost.step_us(decode), mixed_us = cost.step_us(mixed), token_us = cost.more_us(0, 64);
  for (const StepWork& slow : {decode, mixed}) {
    CostModel after = cost;
    after.observe(slow, 3'000'000);  // the machine was asleep
    EXPECT_NEAR(after.step_us(decode), decode_us, 0.1 * decode_us);
    EXPECT_NEAR(after.step_us(mixed), mixed_us, 0.1 * mixed_us);
    EXPECT_NEAR(after.more_us(0, 64), token_us, 0.1 * token_us);
  }
}

TEST(CostModel, a_machine_that_became_three_times_slower_shows_within_a_hundred_steps) {
  CostModel cost;
  const StepWork work = chunk(64, 64, decodes(3, 200));
  for (int i = 0; i < 60; ++i) cost.observe(work, 60'000);
  for (int i = 0; i < 100; ++i) cost.observe(work, 180'000);
  EXPECT_NEAR(cost.step_us(work), 180'000, 18'000);
}

TEST(CostModel, a_night_of_decoding_forgets_nothing_about_prompts) {
  CostModel cost;
  for (int i = 0; i < 30; ++i) {
    const StepWork work = chunk(32 * i, 64, decodes(2, 100));
    cost.observe(work, machine_us(work, 12'000, 500, 0.1));
  }
  const double before = cost.more_us(100, 64);
  for (int i = 0; i < 10'000; ++i) cost.observe(decodes(2, i), machine_us(decodes(2, i), 12'000, 500, 0.1));
  EXPECT_NEAR(cost.more_us(100, 64), before, before / 3);
}

TEST(CostModel, no_cost_is_ever_negative_whatever_is_measured_for_100_seeds) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 rng(seed);
    CostModel cost;
    for (int i = 0; i < 200; ++i) {
      const int n = 1 + static_cast<int>(rng() % 500);
      const StepWork work = rng() % 2 ? decodes(1 + n % 8, n) : chunk(n, n);
      cost.observe(work, 1.0 + static_cast<double>(rng() % 10'000'000));
      ASSERT_GE(cost.step_us({}), 0);
      ASSERT_GE(cost.more_us(0, 1), 0);
      ASSERT_GE(cost.more_us(5000, 1), cost.more_us(0, 1));
      ASSERT_TRUE(std::isfinite(cost.step_us(work)));
    }
  }
}

}  // namespace
}  // namespace millrace::sched
