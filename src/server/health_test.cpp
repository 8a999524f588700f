#include "server/health.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace millrace::server {
namespace {

TEST(Health, O11_4_is_503_with_the_percent_until_ready_and_200_for_good) {
  ServerState state;
  EXPECT_EQ(health_response(state).status, 503);
  EXPECT_EQ(health_response(state).body, R"({"status":"loading","percent":0})");
  state.loading(0.42);
  EXPECT_EQ(health_response(state).body, R"({"status":"loading","percent":42})");
  state.loading(0.1);
  EXPECT_EQ(state.percent(), 42) << "never falls";
  state.loading(7);
  EXPECT_EQ(state.percent(), 99);
  state.ready();
  EXPECT_EQ(health_response(state).status, 200);
  EXPECT_EQ(health_response(state).body, R"({"status":"ok"})");
  state.loading(0.5);
  EXPECT_EQ(health_response(state).status, 200);
  state.drain();
  EXPECT_EQ(health_response(state).status, 200) << "draining is no illness";
}

TEST(Health, who_drains_while_the_model_loads_is_not_made_ready) {
  ServerState state;
  state.drain();
  state.ready();
  EXPECT_EQ(state.phase(), Phase::draining);
}

TEST(Ready, says_no_while_loading_and_while_draining) {
  ServerState state;
  EXPECT_EQ(ready_response(state, {}).status, 503);
  EXPECT_EQ(ready_response(state, {}).headers.at(0).name, "retry-after");
  state.ready();
  EXPECT_EQ(ready_response(state, {}).status, 200);
  state.drain();
  EXPECT_EQ(ready_response(state, {}).status, 503);
  EXPECT_EQ(ready_response(state, {}).body, R"({"status":"draining"})");
}

TEST(Ready, says_no_with_the_numbers_when_work_waits_and_nothing_moves) {
  ServerState state;
  state.ready();
  EXPECT_EQ(ready_response(state, {.silent_us = 5'000'000, .max_step_us = 100'000, .running = 2}).status, 200);
  const HttpResponse stuck = ready_response(state, {.silent_us = 5'000'001, .max_step_us = 100'000, .running = 2, .waiting = 3});
  EXPECT_EQ(stuck.status, 503);
  EXPECT_EQ(stuck.body, R"({"status":"stuck","running":2,"waiting":3,"silent_ms":5000,"patience_ms":5000})");
  EXPECT_EQ(ready_response(state, {.silent_us = 9'000'000, .max_step_us = 1'000'000}).status, 200) << "ten steps of a second";
}

TEST(Health, any_thread_may_say_and_ask) {
  ServerState state;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) state.loading(i / 1000.0), (void)health_response(state);
    });
  for (std::thread& one : threads) one.join();
  state.ready();
  EXPECT_EQ(health_response(state).status, 200);
}

}  // namespace
}  // namespace millrace::server
