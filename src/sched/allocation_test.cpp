// P15: planning and committing decodes allocates nothing. Counts every operator new of this test program.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <numeric>
#include <vector>

#include "sched/scheduler.h"

namespace {
long g_allocations = 0;
}  // namespace

// Not inlined: the compiler would take malloc and free in them for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++g_allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

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
  const long before = g_allocations;
  for (int i = 0; i < 150; ++i) run();  // through block borders: blocks are taken, named and published
  EXPECT_EQ(g_allocations - before, 0);
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
  const long before = g_allocations;
  for (int i = 0; i < 150; ++i) run();
  EXPECT_EQ(g_allocations - before, 0);
  EXPECT_EQ(sched.tokens({15}).size(), 9u + 152u);
}

}  // namespace
}  // namespace millrace::sched
