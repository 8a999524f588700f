#include "engine/engine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

TEST_F(EngineTest, an_idle_engine_uses_no_cpu) {
  start();
  ask(story());
  const auto cpu = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return 1us * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) +
           1s * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  };
  const std::uint64_t steps = engine_->metrics().steps_total.value();
  const auto before = cpu();
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(cpu() - before, 50ms);
  EXPECT_EQ(engine_->metrics().steps_total.value(), steps);
}

TEST_F(EngineTest, no_limit_means_what_is_left_of_context_and_pool) {
  start({.blocks = 100, .block_tokens = 4, .max_positions = 50});
  EXPECT_EQ(ask(story(-1)).usage.completion_tokens, 45);
  start({.blocks = 10, .block_tokens = 4, .max_positions = 50});
  EXPECT_EQ(ask(story(-1)).usage.completion_tokens, 35);
}

TEST_F(EngineTest, wrong_requests_are_refused_with_the_numbers) {
  start({.blocks = 10, .block_tokens = 4, .max_positions = 100});
  const auto with = [&](auto change) {
    Request request = story();
    request.max_new_tokens = 5;
    change(request);
    return refusal(std::move(request));
  };
  EXPECT_EQ(with([](Request&) {}), "");
  EXPECT_EQ(with([](Request& r) { r.prompt.clear(); }), "the prompt has no tokens");
  EXPECT_EQ(with([](Request& r) { r.prompt[2] = 48; }), "prompt[2] is token 48, the vocabulary has 48");
  EXPECT_EQ(with([](Request& r) { r.prompt[0] = -1; }), "prompt[0] is token -1, the vocabulary has 48");
  EXPECT_EQ(with([](Request& r) { r.max_new_tokens = -2; }),
            "max_new_tokens is -2, expected 0 or more, or -1 for all that fit");
  EXPECT_EQ(with([](Request& r) { r.max_new_tokens = 36; }),
            "prompt of 5 tokens plus 36 new ones exceeds the KV cache of 40 tokens");
  EXPECT_EQ(with([](Request& r) { r.max_new_tokens = 2147483647; }),
            "prompt of 5 tokens plus 2147483647 new ones exceeds the context of 100 tokens");
  EXPECT_EQ(with([](Request& r) {
              r.prompt.resize(40, 9);
              r.max_new_tokens = -1;
            }),
            "prompt of 40 tokens leaves no room for an answer, 40 tokens fit");
  EXPECT_EQ(with([](Request& r) { r.stop = {"a", ""}; }), "stop[1] has 0 bytes, expected 1 to 4096");
  EXPECT_EQ(with([](Request& r) { r.stop = {"\xA9"}; }), "stop[0] is not valid UTF-8");
  EXPECT_EQ(with([](Request& r) { r.stop.resize(65, "x"); }), "65 stop strings, at most 64 are possible");
  EXPECT_EQ(with([](Request& r) { r.stop_token_ids = {48}; }), "stop_token_ids[0] is token 48, the vocabulary has 48");
  EXPECT_EQ(with([](Request& r) { r.min_tokens = -1; }), "min_tokens is -1, expected 0 to 5, the most new tokens");
  EXPECT_EQ(with([](Request& r) { r.min_tokens = 6; }), "min_tokens is 6, expected 0 to 5, the most new tokens");
  EXPECT_EQ(with([](Request& r) { r.sampling.top_p = 0; }), "top_p is 0, expected more than 0 and at most 1");
  EXPECT_EQ(with([](Request& r) { r.timeout_us = -1; }), "timeout_us is -1, expected 0 (none) or more");
  EXPECT_EQ(with([](Request& r) { r.max_unread_tokens = 0; }), "max_unread_tokens is 0, expected 1 or more");
  EXPECT_EQ(with([](Request& r) { r.prompt_rows = model::Outputs::all; }),
            "prompt_rows are asked for and there is no row_sink");
  EXPECT_EQ(with([](Request& r) {
              r.prompt_rows = model::Outputs::hidden;
              r.row_sink = [](auto...) {};
            }),
            "hidden rows come without new tokens, 5 were asked for");
  EXPECT_EQ(engine_->metrics().refused_total.value(), 18u);
}

TEST_F(EngineTest, a_full_queue_refuses) {
  start({.step_time = 5ms}, {.max_running = 1, .max_queued = 2});
  std::vector<Handle> handles;
  handles.push_back(submit(story(100)));
  ASSERT_TRUE(handles[0].next(60s));  // it runs, so the queue is empty
  handles.push_back(submit(story(100)));
  handles.push_back(submit(story(100)));
  EXPECT_EQ(refusal(story(100)), "2 requests are waiting, at most 2 may");
  for (int i = 0; i < 20; ++i) {  // who has read that its request ended finds its place free
    handles[1].cancel();
    EXPECT_EQ(read_all(handles[1]).finished, Finish::cancelled);
    handles[1] = submit(story(100));
  }
}

TEST_F(EngineTest, a_second_request_computes_only_what_differs) {
  Engine& engine = start();
  Request request = story(4);
  request.prompt.assign(21, 12);
  const Answer first = ask(request), second = ask(request);
  EXPECT_EQ(first.usage.cached_tokens, 0);
  EXPECT_EQ(second.usage.cached_tokens, 20);
  EXPECT_EQ(second.ids, first.ids);
  const EngineMetrics& m = engine.metrics();
  EXPECT_EQ(m.prompt_tokens_total.value(), 42u);
  EXPECT_EQ(m.cached_tokens_total.value(), 20u);
  EXPECT_EQ(m.computed_tokens_total.value(), 22u);

  start({}, {.prefix_sharing = false});
  ask(request);
  EXPECT_EQ(ask(request).usage.cached_tokens, 0);
}

TEST_F(EngineTest, log_probabilities_come_with_the_tokens) {
  start();
  Request request = story(3);
  request.sampling.top_logprobs = 2;
  Handle handle = submit(request);
  int n_tokens = 0;
  for (std::optional<Finish> finished; !finished;) {
    const auto event = handle.next(60s);
    ASSERT_TRUE(event);
    for (const TokenEvent& token : event->tokens) {
      ++n_tokens;
      EXPECT_LT(token.logprob, 0);
      ASSERT_EQ(token.top.size(), 2u);
      EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
    }
    finished = event->finished;
  }
  EXPECT_EQ(n_tokens, 3);
}

TEST_F(EngineTest, no_new_tokens_means_the_prompt_is_computed_and_nothing_said) {
  start();
  const Answer got = ask(story(0));
  EXPECT_EQ(got.finished, Finish::length);
  EXPECT_EQ(got.usage.completion_tokens, 0);
  EXPECT_EQ(engine_->metrics().computed_tokens_total.value(), 5u);
}

TEST(EngineApi, callers_never_see_a_block_id) {  // A17
  std::stringstream text;
  text << std::ifstream(MILLRACE_SOURCE_DIR "/src/engine/engine.h").rdbuf();
  ASSERT_NE(text.str().find("struct Request"), std::string::npos);
  EXPECT_EQ(text.str().find("Block"), std::string::npos);
  EXPECT_EQ(text.str().find("SeqId"), std::string::npos);
}

}  // namespace
}  // namespace millrace::engine
