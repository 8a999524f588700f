#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace millrace::sched {
namespace {

std::vector<TokenId> counting(int n, int from = 100) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

TEST(Scheduler, the_cache_of_a_sequence_grows_step_by_step) {  // A9
  kv::CacheGroups groups({{4, 0, 8}}, 16);
  Scheduler sched({.step_tokens = 16, .step_outputs = 4, .max_running = 4}, groups);
  ASSERT_TRUE(sched.add({0}, {.prompt = counting(3), .max_new = 20}));
  StepPlan step;
  const std::vector<TokenId> token = {7};
  for (int length = 3; length < 23; ++length) {
    sched.plan(step);
    ASSERT_EQ(step.slices.size(), 1u);
    EXPECT_EQ(step.slices[0].first + step.slices[0].count, length);
    EXPECT_EQ(static_cast<int>(sched.blocks({0}, 0).size()), (length + 3) / 4);
    const std::span<const TokenId> accepted[] = {token};
    sched.commit(step, accepted);
    EXPECT_EQ(static_cast<int>(sched.tokens({0}).size()), length + 1);
  }
}

TEST(Scheduler, refusals_name_the_numbers) {
  kv::CacheGroups groups({{4, 0, 8}}, 16);
  Scheduler sched({.step_tokens = 16, .step_outputs = 8, .max_running = 4}, groups);
  const auto message = [&](SequenceSpec spec) {
    const auto added = sched.add({0}, std::move(spec));
    return added ? std::string() : added.error().message;
  };
  EXPECT_EQ(message({.prompt = counting(30), .max_new = 3}),
            "prompt of 30 tokens plus 3 new ones exceeds the KV cache of 32 tokens");
  EXPECT_EQ(message({.prompt = counting(30), .max_new = 2147483647}),
            "prompt of 30 tokens plus 2147483647 new ones exceeds the KV cache of 32 tokens");
  EXPECT_EQ(message({.prompt = counting(3), .max_new = 3, .prompt_rows = Outputs::hidden}),
            "hidden rows come without new tokens, 3 were asked for");
  EXPECT_EQ(message({.prompt = counting(6), .prompt_rows = Outputs::hidden, .whole = true}),
            "prompt of 6 tokens runs as a whole, a step has room for 5");
  EXPECT_EQ(sched.n_waiting(), 0);
  EXPECT_EQ(message({.prompt = counting(30), .max_new = 2}), "");
}

TEST(SchedulerDeathTest, commits_beyond_what_was_admitted_are_bugs) {
  kv::CacheGroups groups({{4, 0, 8}}, 16);
  Scheduler sched({.step_tokens = 16, .step_outputs = 4, .max_running = 4}, groups);
  ASSERT_TRUE(sched.add({0}, {.prompt = counting(3), .max_new = 1}));
  StepPlan step;
  sched.plan(step);
  const std::vector<TokenId> tokens = {7, 8};
  const std::span<const TokenId> accepted[] = {tokens};
  EXPECT_DEATH(sched.commit(step, accepted), "more tokens than were admitted");
  EXPECT_DEATH(sched.commit(step, {}), "commit needs the accepted tokens of each slice");
  EXPECT_DEATH((void)sched.tokens({5}), "no sequence 5");
}

}  // namespace
}  // namespace millrace::sched
