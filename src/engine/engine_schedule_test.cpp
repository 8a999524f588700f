// Schedules, budgets and the line as a client of the engine sees them.

#include <gtest/gtest.h>

#include <future>

#include "engine/line_pace.h"
#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

using EngineSchedule = EngineTest;
using sched::Schedule;

TEST_F(EngineSchedule, the_same_answers_whatever_the_schedule_the_budget_and_the_pool) {  // A21, P2, B7
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    Request request = story(5 + 7 * (i % 5), static_cast<std::uint64_t>(i));
    request.prompt.resize(static_cast<std::size_t>(3 + 9 * (i % 4)), 10 + i % 3);
    request.priority = i % 3;
    request.tenant = i % 2;
    if (i % 4 == 1) request.ttft_slo_us = 1000, request.tpot_slo_us = 1000;
    requests.push_back(std::move(request));
  }
  for (const Schedule schedule : {Schedule::serial, Schedule::static_, Schedule::mixed})
    for (const Microseconds max_step_us : {0, 3, 100'000})
      for (const int blocks : {18, 64}) {
        Engine& engine = start({.blocks = blocks}, {.schedule = schedule, .max_step_us = max_step_us, .calibrate = true, .check_invariants = true});
        std::vector<Handle> handles;
        for (const Request& request : requests) handles.push_back(submit(request));
        for (std::size_t i = 0; i < requests.size(); ++i) {
          const Answer got = read_all(handles[i]), want = answer_alone(requests[i], tokenizer_);
          EXPECT_EQ(got.ids, want.ids);
          EXPECT_EQ(got.text, want.text);
        }
        EXPECT_EQ(engine.metrics().kv_blocks_used.value(), 0);
      }
}

TEST_F(EngineSchedule, serial_and_static_leave_slots_idle_and_mixed_does_not) {  // P14, B7
  std::uint64_t steps[3], idle[3];
  for (const Schedule schedule : {Schedule::serial, Schedule::static_, Schedule::mixed}) {
    Engine& engine = start({.step_time = 1ms}, {.max_running = 4, .schedule = schedule});
    std::vector<Handle> handles;
    handles.push_back(submit(story(150)));  // while it runs the others arrive
    ASSERT_TRUE(handles[0].next(60s));
    for (int i = 0; i < 8; ++i) handles.push_back(submit(story(5 + 10 * (i % 4))));
    for (Handle& handle : handles) read_all(handle);
    steps[static_cast<int>(schedule)] = engine.metrics().steps_total.value();
    idle[static_cast<int>(schedule)] = engine.metrics().idle_slot_steps_total.value();
  }
  EXPECT_EQ(steps[0], 150u + 2 * (5 + 15 + 25 + 35));  // a prefill draws the first token
  EXPECT_EQ(steps[1], 150u + 2 * 35);
  EXPECT_GT(steps[1], steps[2]);
  EXPECT_EQ(idle[0], 0u);
  EXPECT_EQ(idle[1], 2u * (30 + 20 + 10));
  EXPECT_EQ(idle[2], 0u);
}

TEST_F(EngineSchedule, a_full_line_says_when_to_come_again) {
  start({.step_time = 2ms}, {.max_running = 1, .max_queued = 3, .max_queued_tokens = 12});
  std::vector<Handle> handles;
  handles.push_back(submit(story(100)));
  ASSERT_TRUE(handles[0].next(60s));  // it runs: the line is empty
  handles.push_back(submit(story(100)));
  handles.push_back(submit(story(100)));
  const auto refused = engine_->submit(story(100));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "prompts of 10 tokens are waiting, with these 5 at most 12 may");
  EXPECT_GE(refused.error().retry_after_us, 100'000);
  EXPECT_LE(refused.error().retry_after_us, 600'000'000);
  Request brief = story(100);
  brief.prompt.resize(2);
  handles.push_back(submit(brief));
  const auto full = engine_->submit(brief);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().message, "3 requests are waiting, at most 3 may");
  EXPECT_GT(full.error().retry_after_us, 0);
  for (Handle& handle : handles) handle.cancel();
  for (Handle& handle : handles) EXPECT_EQ(read_all(handle).finished, Finish::cancelled);
  Request large = story(5);  // alone in line it may wait, however large
  large.prompt.assign(40, 11);
  EXPECT_EQ(ask(large).finished, Finish::length);
  EXPECT_EQ(refusal(story(1 << 20)), "prompt of 5 tokens plus 1048576 new ones exceeds the context of 200 tokens");  // never fits: no time helps
}

TEST_F(EngineSchedule, a_full_line_is_shared_by_weight_among_its_tenants) {
  start({.step_time = 20ms}, {.max_running = 1, .max_queued = 8, .max_queued_tokens = 1000});
  const auto of = [](int tenant, int weight) {
    Request request = story(100);
    request.tenant = tenant;
    request.tenant_weight = weight;
    return request;
  };
  std::vector<Handle> handles;
  handles.push_back(submit(of(1, 1)));
  ASSERT_TRUE(handles[0].next(60s));  // it runs: the line is empty
  for (int i = 0; i < 8; ++i) handles.push_back(submit(of(1, 1)));
  EXPECT_EQ(refusal(of(1, 1)), "8 requests are waiting, at most 8 may");
  for (int i = 0; i < 6; ++i) handles.push_back(submit(of(2, 3)));  // three quarters of eight
  EXPECT_EQ(refusal(of(2, 3)), "14 requests are waiting, at most 8 may; 6 of them are this tenant's, whose share is 6");
  EXPECT_EQ(refusal(of(1, 1)), "14 requests are waiting, at most 8 may; 8 of them are this tenant's, whose share is 2");
  handles.push_back(submit(of(3, 1)));
  EXPECT_EQ(refusal(of(3, 1)), "15 requests are waiting, at most 8 may; 1 of them are this tenant's, whose share is 1");
  handles.push_back(submit(of(4, 1)));
  EXPECT_EQ(refusal(of(5, 1)), "16 requests are waiting, at most 8 may; 0 of them are this tenant's, whose share is 1");  // twice is the utmost
  EXPECT_EQ(engine_->metrics().queued.value(), 16);
  for (Handle& handle : handles) handle.cancel();
  for (Handle& handle : handles) EXPECT_EQ(read_all(handle).finished, Finish::cancelled);
  EXPECT_EQ(engine_->metrics().queued.value(), 0);
  EXPECT_EQ(engine_->metrics().queued_tokens.value(), 0);
}

TEST_F(EngineSchedule, the_tokens_of_a_full_line_are_shared_too) {
  start({.step_time = 20ms}, {.max_running = 1, .max_queued = 100, .max_queued_tokens = 20});
  const auto of = [](int tenant) {
    Request request = story(100);
    request.tenant = tenant;
    return request;
  };
  std::vector<Handle> handles;
  handles.push_back(submit(of(1)));
  ASSERT_TRUE(handles[0].next(60s));
  for (int i = 0; i < 4; ++i) handles.push_back(submit(of(1)));
  EXPECT_EQ(refusal(of(1)), "prompts of 20 tokens are waiting, with these 5 at most 20 may");
  for (int i = 0; i < 2; ++i) handles.push_back(submit(of(2)));
  EXPECT_EQ(refusal(of(2)), "prompts of 30 tokens are waiting, with these 5 at most 20 may; 10 of them are this tenant's, whose share is 10");
  for (Handle& handle : handles) handle.cancel();
  for (Handle& handle : handles) EXPECT_EQ(read_all(handle).finished, Finish::cancelled);
  EXPECT_EQ(engine_->metrics().queued_tokens.value(), 0);
}

TEST(LinePace, is_what_left_the_line_by_the_time_that_it_had_somebody) {
  LinePace pace;
  EXPECT_EQ(pace.us_per_request(0), 1e6);
  pace.begin(0);
  for (int i = 1; i <= 31; ++i) pace.move(1, 200, i * 100'000);
  EXPECT_NEAR(pace.us_per_request(3'100'000), 1e5, 0.5e5);
  EXPECT_NEAR(pace.us_per_token(3'100'000), 500, 200);
  pace.begin(100'000'000);  // it was empty meanwhile
  EXPECT_NEAR(pace.us_per_request(100'000'000), 1e5, 0.5e5);
  EXPECT_GT(pace.us_per_request(200'000'000), 1e6);  // and now stands still
}

TEST_F(EngineSchedule, no_lock_is_held_while_a_step_runs) {  // P15
  std::atomic<Engine*> engine = nullptr;
  std::vector<Handle> others;
  bool free = false;
  start({.fails = [&](int step) {
    if (step != 3 || !engine.load()) return false;
    // In the middle of a step everything that a client may do returns.
    auto done = std::async(std::launch::async, [&] {
      auto handle = engine.load()->submit(story(3));
      if (!handle) return false;
      handle->next(0ms);
      others.push_back(std::move(handle).value());
      others.push_back(std::move(engine.load()->submit(story(3))).value());
      others.back().cancel();
      return engine.load()->metrics().steps_total.value() > 0;
    });
    free = done.wait_for(20s) == std::future_status::ready && done.get();
    return false;
  }});
  engine = engine_.get();
  while (engine_->metrics().steps_total.value() < 5) ask(story(10));
  engine_.reset();  // its thread has written `free`
  EXPECT_TRUE(free);
}

TEST_F(EngineSchedule, time_is_accounted_for) {  // P1, P17
  Engine& engine = start({.step_time = 2ms}, {.max_running = 1});
  std::vector<Handle> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(submit(story(20)));
  Usage usage;
  for (Handle& handle : handles) usage = read_all(handle).usage;
  const EngineMetrics& m = engine.metrics();
  EXPECT_EQ(m.busy_us.value() + m.stall_host_us.value(), m.open_us.value());
  EXPECT_GE(m.busy_us.value(), 60u * 2000);
  EXPECT_GE(m.stall_slots_us.value(), 40u * 2000);  // one waited for 20 steps, one for 40
  EXPECT_EQ(m.stall_blocks_us.value(), 0u);
  EXPECT_GE(usage.gap_max_us, 2000);
  EXPECT_LE(usage.gap_max_us, usage.decode_us);
}

TEST_F(EngineSchedule, a_prompt_that_arrives_runs_beside_the_streams_and_they_are_told_apart) {  // P10
  Engine& engine = start({.step_tokens = 8, .step_time = 1ms});
  Handle stream = submit(story(100));
  ASSERT_TRUE(stream.next(60s));
  Request prompt = story(2);
  prompt.prompt.assign(50, 11);
  ask(prompt);
  read_all(stream);
  EXPECT_GE(engine.metrics().mixed_steps_total.value(), 7u);
}

TEST_F(EngineSchedule, times_of_tokens_rise_from_the_first_one_on) {
  start({.step_time = 1ms});
  Handle handle = submit(story(10));
  std::vector<Microseconds> times;
  Usage usage;
  for (bool over = false; !over;) {
    const auto event = handle.next(60s);
    ASSERT_TRUE(event);
    for (const TokenEvent& token : event->tokens) times.push_back(token.at_us);
    over = event->finished.has_value();
    usage = event->usage;
  }
  ASSERT_EQ(times.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(times));
  EXPECT_EQ(times[0], usage.ttft_us);
  EXPECT_EQ(times[9] - times[0], usage.decode_us);
}

TEST_F(EngineSchedule, wishes_that_make_no_sense_are_refused) {
  start();
  const auto with = [&](auto change) {
    Request request = story(3);
    change(request);
    return refusal(std::move(request));
  };
  EXPECT_EQ(with([](Request& r) { r.ttft_slo_us = -1; }), "ttft_slo_us is -1, expected 0 (none) or more");
  EXPECT_EQ(with([](Request& r) { r.tpot_slo_us = -5; }), "tpot_slo_us is -5, expected 0 (none) or more");
  EXPECT_EQ(with([](Request& r) { r.tenant_weight = 0; }), "tenant_weight is 0, expected 1 to 1000");
}

}  // namespace
}  // namespace millrace::engine
