// What the engine says of itself while it works: counts that agree with each other, gauges that settle, its pulse.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

using EngineMetricsTest = EngineTest;

void expect_settled(const EngineMetrics& m) {
  EXPECT_EQ(m.running.value(), 0);
  EXPECT_EQ(m.waiting.value(), 0);
  EXPECT_EQ(m.queued.value(), 0);
  EXPECT_EQ(m.queued_tokens.value(), 0);
  EXPECT_EQ(m.kv_blocks_used.value(), 0);
}

TEST_F(EngineMetricsTest, gauges_are_settled_when_the_last_event_of_the_last_request_is_read) {  // O11.1
  for (int round = 0; round < 5; ++round) {
    Engine& engine = start({.blocks = 40, .step_time = 500us}, {.max_running = 8, .check_invariants = true});
    std::vector<Handle> handles;
    for (int i = 0; i < 20; ++i) handles.push_back(submit(story(100, static_cast<std::uint64_t>(i))));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(handles[static_cast<std::size_t>(i)].next(60s));
    EXPECT_GT(engine.metrics().running.value() + engine.metrics().waiting.value(), 0);
    for (Handle& handle : handles) handle.cancel();
    for (Handle& handle : handles) EXPECT_TRUE(read_all(handle).finished);
    expect_settled(engine.metrics());
  }
}

TEST_F(EngineMetricsTest, the_line_counts_who_has_not_started_yet) {
  Engine& engine = start({.step_time = 2ms}, {.max_running = 1});
  Handle running = submit(story(100));
  ASSERT_TRUE(running.next(60s));
  Handle waiting = submit(story(10));
  auto answers = engine.submit(story(10), 3);
  ASSERT_TRUE(answers);
  EXPECT_EQ(engine.metrics().queued.value(), 4);
  EXPECT_EQ(engine.metrics().queued_tokens.value(), 10);
  running.cancel();
  answers->clear();
  read_all(waiting);
  EXPECT_EQ(engine.drain(60s), 0);
  expect_settled(engine.metrics());
}

TEST_F(EngineMetricsTest, counters_and_histograms_agree_whatever_ended_the_requests) {  // O11.2
  Engine& engine = start({.step_time = 1ms}, {.max_running = 4, .check_invariants = true});
  std::vector<Handle> killed;
  for (int i = 0; i < 5; ++i) killed.push_back(submit(story(150, static_cast<std::uint64_t>(i))));
  ASSERT_TRUE(killed[0].next(60s));
  for (Handle& handle : killed) handle.cancel();
  int generated = 0, with_token = 0;
  const auto add = [&](const Usage& usage) {
    generated += usage.completion_tokens;
    with_token += usage.completion_tokens > 0;
  };
  for (Handle& handle : killed) add(read_all(handle).usage);
  for (int i = 0; i < 5; ++i) add(ask(story(10)).usage);
  Request stops = story(10);
  stops.stop_token_ids = {20};
  stops.sampling.logit_bias = {{20, 100.0f}};
  add(ask(stops).usage);
  Handle streams = submit(story(20)), arrives = submit(story(0));
  ASSERT_TRUE(streams.next(60s));
  Request other = story(1);
  other.prompt.assign(9, 30);  // not cached
  Handle beside = submit(other);  // a step has both
  for (Handle* handle : {&streams, &arrives, &beside}) {
    const Answer answer = read_all(*handle);
    EXPECT_EQ(answer.finished, Finish::length);
    add(answer.usage);
  }
  for (int i = 0; i < 5; ++i) EXPECT_NE(refusal(story(500)), "");

  const EngineMetrics& m = engine.metrics();
  EXPECT_EQ(m.requests_total.value(), 14u);
  EXPECT_EQ(m.refused_total.value(), 5u);
  EXPECT_EQ(m.finished(Finish::cancelled), 5u);
  EXPECT_EQ(m.finished(Finish::length), 8u);
  EXPECT_EQ(m.finished(Finish::stop), 1u);
  EXPECT_EQ(m.request_us.count(), 14u);
  EXPECT_EQ(m.request_prompt_tokens.count(), 14u);
  EXPECT_EQ(m.request_prompt_tokens.sum(), 13u * 5 + 9);
  EXPECT_EQ(m.request_generated_tokens.count(), 14u);
  EXPECT_EQ(m.request_generated_tokens.sum(), static_cast<std::uint64_t>(generated));
  EXPECT_EQ(m.generated_tokens_total.value(), static_cast<std::uint64_t>(generated));
  EXPECT_EQ(m.first_token_us.count(), static_cast<std::uint64_t>(with_token));
  EXPECT_EQ(m.prefill_us.count(), static_cast<std::uint64_t>(with_token));
  EXPECT_EQ(m.decode_us.count(), static_cast<std::uint64_t>(with_token));
  EXPECT_EQ(m.gap_us.count(), static_cast<std::uint64_t>(generated - with_token));
  EXPECT_GE(m.gap_us.sum(), m.gap_us.count() * 1000);
  EXPECT_EQ(m.gap_us.sum(), m.decode_us.sum());
  EXPECT_EQ(m.gap_us.bucket(0), 0u);  // none is as quick as a step
  std::uint64_t steps = 0, step_us = 0;
  for (const Histogram& kind : m.step_us) steps += kind.count(), step_us += kind.sum();
  EXPECT_EQ(steps, m.steps_total.value());
  EXPECT_EQ(step_us, m.busy_us.value());
  EXPECT_GE(m.host_us.count() + 1, m.steps_total.value());  // the last step may not be through with the engine thread
  for (const StepKind kind : {StepKind::prefill, StepKind::decode, StepKind::mixed})
    EXPECT_GT(m.step_us[static_cast<std::size_t>(kind)].count(), 0u) << to_string(kind);
}

TEST_F(EngineMetricsTest, the_pulse_grows_while_a_step_does_not_end_and_is_nothing_when_nothing_is_open) {
  std::atomic<Engine*> engine = nullptr;
  std::atomic<Microseconds> within = 0, next = 0;
  start({.fails = [&](int step) {
    while (!engine.load()) std::this_thread::yield();
    if (step == 3) std::this_thread::sleep_for(50ms);
    if (step == 3) within = engine.load()->pulse();
    if (step == 4) next = engine.load()->pulse();
    return false;
  }});
  engine = engine_.get();
  EXPECT_EQ(engine_->pulse(), 0);
  std::this_thread::sleep_for(20ms);
  Handle handle = submit(story(150));
  ASSERT_TRUE(handle.next(60s));
  read_all(handle);
  EXPECT_EQ(engine_->drain(60s), 0);
  EXPECT_EQ(engine_->pulse(), 0);
  EXPECT_GE(within.load(), 50'000);
  EXPECT_LT(next.load(), within.load());
}

}  // namespace
}  // namespace millrace::engine
