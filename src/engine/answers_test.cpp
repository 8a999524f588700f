// Several answers to one prompt: computed once, each as if it were alone, none hurt by another's end.

#include <gtest/gtest.h>

#include <thread>

#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

class Answers : public EngineTest {
 protected:
  std::vector<Handle> submit_n(const Request& request, int n) { return engine_->submit(request, n).value(); }

  static Request long_story(int max_new = 30) {
    Request request = story(max_new);
    for (int i = 0; i < 40; ++i) request.prompt.push_back(10 + i * 7 % 30);
    return request;
  }
};

TEST_F(Answers, four_of_one_prompt_compute_it_once_and_are_those_of_solo_runs) {  // A16
  for (const bool sharing : {false, true}) {
    start({.step_tokens = 16}, {.prefix_sharing = sharing, .check_invariants = true});
    const Request request = long_story();
    auto handles = submit_n(request, 4);
    ASSERT_EQ(handles.size(), 4u);
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const Answer got = read_all(handles[i]), want = answer_alone(request, tokenizer_, i);
      EXPECT_EQ(got.ids, want.ids) << i;
      EXPECT_EQ(got.text, want.text) << i;
      EXPECT_EQ(got.finished, Finish::length);
      EXPECT_EQ(got.usage.prompt_tokens, 45);
      EXPECT_EQ(got.usage.cached_tokens, i == 0 ? 0 : 45);
    }
    EXPECT_EQ(engine_->metrics().computed_tokens_total.value(), 45u);
    EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
  }
}

TEST_F(Answers, only_the_one_that_computes_the_prompt_says_where_it_diverged) {  // A16
  start();
  Request known = long_story(1), request = long_story(2);
  request.prompt[30] = known.prompt[30] == 20 ? 21 : 20;
  Handle first = submit(known);
  (void)read_all(first);
  auto handles = submit_n(request, 3);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const Answer got = read_all(handles[i]);
    EXPECT_EQ(got.cache.diverged_at, i == 0 ? 30 : -1) << i;
    if (i > 0) { EXPECT_EQ(got.cache.cached, 45) << i; }
  }
}

TEST_F(Answers, greedy_ones_are_equal_and_drawn_ones_differ) {
  start();
  Request request = long_story();
  auto drawn = submit_n(request, 2);
  EXPECT_NE(read_all(drawn[0]).ids, read_all(drawn[1]).ids);
  request.sampling.temperature = 0;
  auto greedy = submit_n(request, 2);
  EXPECT_EQ(read_all(greedy[0]).ids, read_all(greedy[1]).ids);
}

TEST_F(Answers, cancelling_any_at_any_time_leaves_the_others_as_they_are) {  // P16
  for (int victim = 0; victim < 4; ++victim)
    for (const auto delay : {0us, 300us, 1500us, 4000us}) {
      SCOPED_TRACE(::testing::Message() << "victim " << victim << " after " << delay.count() << " us");
      start({.step_tokens = 8, .step_time = 200us}, {.step_tokens = 8, .check_invariants = true});
      const Request request = long_story();
      auto handles = submit_n(request, 4);
      std::this_thread::sleep_for(delay);
      handles[static_cast<std::size_t>(victim)].cancel();
      for (int i = 0; i < 4; ++i) {
        const Answer got = read_all(handles[static_cast<std::size_t>(i)]);
        if (i == victim) EXPECT_TRUE(got.finished == Finish::cancelled || got.finished == Finish::length);
        else EXPECT_EQ(got.ids, answer_alone(request, tokenizer_, static_cast<std::uint64_t>(i)).ids) << i;
      }
      EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
      EXPECT_EQ(engine_->metrics().running.value() + engine_->metrics().waiting.value(), 0);
    }
}

TEST_F(Answers, in_a_pool_for_one_and_a_half_and_in_few_slots_they_are_those_of_solo_runs) {  // A21
  for (const int running : {1, 2, 16}) {
    SCOPED_TRACE(running);
    start({.blocks = 30}, {.max_running = running, .check_invariants = true});
    const Request request = long_story(40);
    auto handles = submit_n(request, 6);
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const Answer got = read_all(handles[i]);
      EXPECT_EQ(got.ids, answer_alone(request, tokenizer_, i).ids) << i;
      EXPECT_LE(got.usage.cached_tokens, 45);
    }
    EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
  }
}

TEST_F(Answers, those_that_wait_for_a_slot_compute_no_more_of_the_prompt_than_its_last_block) {  // A16
  for (const int running : {1, 2, 4}) {
    SCOPED_TRACE(running);
    start({.blocks = 200}, {.max_running = running, .check_invariants = true});
    const Request request = long_story();
    auto handles = submit_n(request, 6);
    for (std::size_t i = 0; i < handles.size(); ++i) EXPECT_EQ(read_all(handles[i]).ids, answer_alone(request, tokenizer_, i).ids) << i;
    EXPECT_LE(engine_->metrics().computed_tokens_total.value(), 45u + static_cast<std::uint64_t>(6 - running) * 4);
  }
}

TEST_F(Answers, a_step_that_fails_takes_the_one_that_ran_and_no_other) {  // P16
  start({.fails = [](int step) { return step == 0; }});
  const Request request = long_story();
  auto handles = submit_n(request, 3);
  EXPECT_EQ(read_all(handles[0]).finished, Finish::error);
  for (std::size_t i = 1; i < handles.size(); ++i) EXPECT_EQ(read_all(handles[i]).ids, answer_alone(request, tokenizer_, i).ids) << i;
}

TEST_F(Answers, each_ends_by_its_own_end_token) {
  start();
  Request request = long_story(60);
  request.ignore_eos = false;
  request.sampling.logit_bias = {{kEnd, 9.0f}};
  auto handles = submit_n(request, 8);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const Answer got = read_all(handles[i]), want = answer_alone(request, tokenizer_, i);
    EXPECT_EQ(got.ids, want.ids) << i;
    EXPECT_EQ(got.finished, want.finished) << i;
  }
}

TEST_F(Answers, a_number_that_makes_no_sense_is_refused_and_each_counts_in_the_queue) {
  start({}, {.max_queued = 4});
  const auto message = [&](Request request, int n) { return engine_->submit(std::move(request), n).error().message; };
  EXPECT_EQ(message(long_story(), 0), "0 answers, expected 1 to 128");
  EXPECT_EQ(message(long_story(), 129), "129 answers, expected 1 to 128");
  EXPECT_EQ(message(long_story(0), 2), "2 answers of no new tokens");
  EXPECT_EQ(message(long_story(), 5), "5 answers were asked for, at most 4 requests may wait");
  Request rows = long_story();
  rows.prompt_rows = model::Outputs::all;
  rows.row_sink = [](auto...) {};
  EXPECT_EQ(message(rows, 2), "prompt_rows come with one answer, 2 were asked for");
}

TEST_F(Answers, the_cache_can_be_looked_into_at_any_time) {  // A28
  start({.step_time = 1ms});
  sched::CacheState before = engine_->cache();  // of an idle engine
  ASSERT_EQ(before.pools.size(), 1u);
  EXPECT_EQ(before.pools[0].free, 64);
  EXPECT_TRUE(before.sequences.empty());

  auto handles = submit_n(long_story(60), 3);
  for (Handle& handle : handles)  // the first token is the prompt's; then each has written one of its own
    for (std::size_t n = 0; n < 3;) {
      const auto event = handle.next(60s);
      ASSERT_TRUE(event);
      n += event->tokens.size();
    }
  const sched::CacheState now = engine_->cache();
  const auto& pool = now.pools[0];
  EXPECT_EQ(pool.free + pool.used + pool.cached, pool.blocks);
  EXPECT_EQ(pool.shared, 11);  // 44 of 45 prompt tokens; the last block was copied
  ASSERT_EQ(now.sequences.size(), 3u);
  int empty = 0;
  for (const auto& sequence : now.sequences) {
    EXPECT_TRUE(sequence.running);
    EXPECT_EQ(sequence.shared, 11);
    EXPECT_EQ(sequence.blocks * now.block_tokens, sequence.tokens + sequence.empty_slots);
    empty += sequence.empty_slots;
  }
  EXPECT_EQ(pool.empty_slots(now.block_tokens), empty);
  EXPECT_EQ(pool.live_tokens, pool.used * now.block_tokens - empty);
}

}  // namespace
}  // namespace millrace::engine
