// P15: planning and committing decodes allocates nothing. Counts every operator new of this test program.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/testing/count_allocations.h"
#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

TEST(Scheduler, a_step_of_decodes_allocates_nothing) {  // P15
  kv::CacheGroups groups({{4, 0, 1024}}, 64);
  Scheduler sched({.step_tokens = 64, .step_outputs = 16, .max_running = 16}, groups);
  for (int id = 0; id < 16; ++id) {
    std::vector<TokenId> prompt(3);
    std::iota(prompt.begin(), prompt.end(), 100 * id);
    ASSERT_TRUE(sched.add({id}, {.prompt = prompt, .max_new = 200}));
  }
  StepPlan step;
  const TokenId token = 5;
  const std::vector<std::span<const TokenId>> accepted(16, std::span(&token, 1));
  const auto run = [&] {
    sched.plan(step);
    sched.commit(step, accepted);
  };
  run();
  const long before = testing::t_allocations;
  for (int i = 0; i < 150; ++i) run();  // through block borders: blocks are taken, named and published
  EXPECT_EQ(testing::t_allocations - before, 0);
  EXPECT_EQ(sched.tokens({0}).size(), 3u + 151u);
}

TEST(Scheduler, nor_does_a_step_of_forks) {  // P15
  kv::CacheGroups groups({{4, 0, 1024}}, 64);
  Scheduler sched({.step_tokens = 64, .step_outputs = 16, .max_running = 16}, groups);
  std::vector<TokenId> prompt(9);
  std::iota(prompt.begin(), prompt.end(), 100);
  ASSERT_TRUE(sched.add({0}, {.prompt = prompt, .max_new = 200}));
  StepPlan step;
  const TokenId token = 5;
  const std::vector<std::span<const TokenId>> accepted(16, std::span(&token, 1));
  const auto run = [&] {
    sched.plan(step);
    sched.commit(step, std::span(accepted).first(step.slices.size()));
  };
  run();
  for (int id = 1; id < 16; ++id) sched.fork({0}, {id}, 9, std::span(&token, 1));
  run();  // the half-full block is copied for each: the step's list of copies gets its memory
  const long before = testing::t_allocations;
  for (int i = 0; i < 150; ++i) run();
  EXPECT_EQ(testing::t_allocations - before, 0);
  EXPECT_EQ(sched.tokens({15}).size(), 9u + 152u);
}

}  // namespace
}  // namespace millrace::sched
