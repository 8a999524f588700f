#include "engine/engine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/utf8.h"
#include "engine/testing/reference.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

class EngineTest : public ::testing::Test {
 protected:
  Engine& start(FakeRunnerOptions runner = {}, EngineOptions options = {.check_invariants = true}) {
    engine_ = std::make_unique<Engine>(std::make_unique<FakeRunner>(std::move(runner)), tokenizer_, options);
    return *engine_;
  }
  Handle submit(Request request) {
    auto handle = engine_->submit(std::move(request));
    if (!handle) throw std::runtime_error(handle.error().message);
    return std::move(handle).value();
  }
  Answer ask(Request request) {
    Handle handle = submit(std::move(request));
    return read_all(handle);
  }
  std::string refusal(Request request) {
    const auto handle = engine_->submit(std::move(request));
    return handle ? std::string() : handle.error().message;
  }

  FakeTokenizer tokenizer_;
  std::unique_ptr<Engine> engine_;
};

Request story(int max_new = 60, std::uint64_t seed = 5) {
  Request request;
  request.prompt = {10, 11, 12, 13, 14};
  request.max_new_tokens = max_new;
  request.sampling.seed = seed;
  request.ignore_eos = true;
  return request;
}

// A18: one test for each reason to finish.

TEST_F(EngineTest, ends_by_length_with_the_text_of_its_tokens) {  // A18
  start();
  const Answer want = answer_alone(story(), tokenizer_), got = ask(story());
  EXPECT_EQ(got.finished, Finish::length);
  EXPECT_EQ(got.ids, want.ids);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.usage.prompt_tokens, 5);
  EXPECT_EQ(got.usage.completion_tokens, 60);
}

TEST_F(EngineTest, ends_by_the_end_token_which_counts_and_has_no_text) {  // A18
  start();
  Request request = story();
  request.ignore_eos = false;
  request.keep_special = true;
  request.sampling.logit_bias = {{kEnd, 100.0f}};
  const Answer got = ask(request);
  EXPECT_EQ(got.finished, Finish::stop);
  EXPECT_EQ(got.ids, std::vector<TokenId>{kEnd});
  EXPECT_EQ(got.usage.completion_tokens, 1);
  EXPECT_EQ(got.text, "");

  request.ignore_eos = true;
  request.max_new_tokens = 3;
  const Answer ignored = ask(request);
  EXPECT_EQ(ignored.finished, Finish::length);
  EXPECT_EQ(ignored.text, "<end><end><end>");
}

TEST_F(EngineTest, ends_by_a_stop_token_id) {  // A18
  start();
  Request request = story();
  request.sampling.logit_bias = {{20, 100.0f}};
  request.stop_token_ids = {21, 20};
  const Answer got = ask(request);
  EXPECT_EQ(got.finished, Finish::stop);
  EXPECT_EQ(got.ids, std::vector<TokenId>{20});
  EXPECT_EQ(got.text, "");
}

TEST_F(EngineTest, ends_before_any_stop_string_of_the_text_wherever_it_lies) {  // A18
  start();
  const std::string text = answer_alone(story(), tokenizer_).text;
  ASSERT_TRUE(text.size() > 40);
  for (std::size_t at = 0; at + 3 <= text.size(); ++at) {
    Request request = story();
    request.stop = {"no such text", text.substr(at, 3)};
    if (!is_valid_utf8(request.stop[1])) continue;
    Handle handle = submit(request);
    const std::string want = text.substr(0, text.find(request.stop[1]));
    std::string got;
    std::optional<Finish> finished;
    while (!finished) {
      const auto event = handle.next(60s);
      ASSERT_TRUE(event);
      got += event->text;
      ASSERT_TRUE(want.starts_with(got)) << "leaked '" << got << "', stop is '" << request.stop[1] << "'";
      finished = event->finished;
    }
    EXPECT_EQ(finished, Finish::stop);
    EXPECT_EQ(got, want);
  }
}

TEST_F(EngineTest, ends_by_cancel_within_one_step) {  // A18
  Engine& engine = start({.step_time = 1ms});
  Handle handle = submit(story(150));
  ASSERT_TRUE(handle.next(60s));
  handle.cancel();
  const std::uint64_t steps = engine.metrics().steps_total.value();
  EXPECT_EQ(read_all(handle).finished, Finish::cancelled);
  EXPECT_LE(engine.metrics().steps_total.value(), steps + 2);  // the one that ran, and one that had begun
  EXPECT_FALSE(handle.next(60s));                              // nothing follows, at once
}

TEST_F(EngineTest, ends_by_deadline_while_it_runs_and_while_it_waits) {  // A18
  start({.step_time = 2ms}, {.max_running = 1});
  Request running = story(150), waiting = story(150);
  running.timeout_us = 40000;
  waiting.timeout_us = 10000;
  Handle first = submit(running), second = submit(waiting);
  const Answer late = read_all(second);
  EXPECT_EQ(late.finished, Finish::timeout);
  EXPECT_EQ(late.usage.completion_tokens, 0);
  EXPECT_EQ(read_all(first).finished, Finish::timeout);
}

TEST_F(EngineTest, ends_by_the_error_of_its_step_and_no_other_request_does) {  // A18, P16
  // Every step once is the one that fails.
  for (int failing = 0; failing < 12; ++failing) {
    start({.fails = [=](int step) { return step == failing; }});
    std::vector<Request> requests;
    for (int i = 0; i < 4; ++i) requests.push_back(story(5 + i, static_cast<std::uint64_t>(i)));
    int failed = 0;
    for (const Request& request : requests) {  // one after the other: each step has one of them
      const Answer got = ask(request), want = answer_alone(request, tokenizer_);
      if (got.finished == Finish::error) {
        ++failed;
        EXPECT_EQ(got.error->message, "no memory for step " + std::to_string(failing));
        EXPECT_TRUE(want.text.starts_with(got.text));
      } else {
        EXPECT_EQ(got.text, want.text);
      }
    }
    EXPECT_EQ(failed, 1);
    EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
    EXPECT_EQ(engine_->metrics().failed_total.value(), 1u);
  }
}

TEST_F(EngineTest, a_client_that_does_not_read_is_cancelled_and_its_neighbour_is_not) {  // P16
  start();
  Request slow = story(100, 1), fine = story(100, 2);
  slow.max_unread_tokens = 8;
  fine.max_unread_tokens = 1000;
  Handle slow_handle = submit(slow), fine_handle = submit(fine);
  EXPECT_EQ(read_all(fine_handle).text, answer_alone(fine, tokenizer_).text);
  const auto event = slow_handle.next(60s);  // all that piled up, merged
  ASSERT_TRUE(event);
  EXPECT_EQ(event->finished, Finish::cancelled);
  EXPECT_EQ(event->tokens.size(), 9u);
  EXPECT_EQ(event->usage.completion_tokens, 9);
}

TEST_F(EngineTest, a_dropped_handle_cancels_its_request) {
  Engine& engine = start({.step_time = 1ms});
  { const Handle dropped = submit(story(150)); }
  EXPECT_EQ(engine.drain(60s), 0);
  EXPECT_EQ(engine.metrics().cancelled_total.value(), 1u);
  EXPECT_EQ(engine.metrics().kv_blocks_used.value(), 0);
}

TEST_F(EngineTest, drain_waits_for_what_runs_cuts_the_rest_and_refuses_new_requests) {
  Engine& engine = start({.step_time = 1ms});
  Handle brief = submit(story(3)), long_one = submit(story(150)), other = submit(story(150));
  EXPECT_EQ(engine.drain(30ms), 2);
  EXPECT_EQ(read_all(brief).finished, Finish::length);
  EXPECT_EQ(read_all(long_one).finished, Finish::cancelled);
  EXPECT_EQ(read_all(other).finished, Finish::cancelled);
  EXPECT_EQ(refusal(story()), "the engine takes no new requests, it is about to stop");
  EXPECT_EQ(engine.drain(0ms), 0);
}

TEST_F(EngineTest, open_requests_end_when_the_engine_does) {
  start({.step_time = 1ms}, {.max_running = 1});
  Handle running = submit(story(150)), waiting = submit(story(150));
  engine_.reset();
  EXPECT_EQ(read_all(running).finished, Finish::cancelled);
  EXPECT_EQ(read_all(waiting).finished, Finish::cancelled);
}

TEST_F(EngineTest, an_idle_engine_uses_no_cpu) {
  start();
  ask(story());
  const auto cpu = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return 1us * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) + 1s * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
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
  EXPECT_EQ(with([](Request& r) { r.prompt.resize(40, 9); r.max_new_tokens = -1; }),
            "prompt of 40 tokens leaves no room for an answer, 40 tokens fit");
  EXPECT_EQ(with([](Request& r) { r.stop = {"a", ""}; }), "stop[1] has 0 bytes, expected 1 to 4096");
  EXPECT_EQ(with([](Request& r) { r.stop = {"\xA9"}; }), "stop[0] is not valid UTF-8");
  EXPECT_EQ(with([](Request& r) { r.stop.resize(65, "x"); }), "65 stop strings, at most 64 are possible");
  EXPECT_EQ(with([](Request& r) { r.stop_token_ids = {48}; }), "stop_token_ids[0] is token 48, the vocabulary has 48");
  EXPECT_EQ(with([](Request& r) { r.sampling.top_p = 0; }), "top_p is 0, expected more than 0 and at most 1");
  EXPECT_EQ(with([](Request& r) { r.timeout_us = -1; }), "timeout_us is -1, expected 0 (none) or more");
  EXPECT_EQ(with([](Request& r) { r.max_unread_tokens = 0; }), "max_unread_tokens is 0, expected 1 or more");
  EXPECT_EQ(with([](Request& r) { r.prompt_rows = model::Outputs::all; }),
            "prompt_rows are asked for and there is no row_sink");
  EXPECT_EQ(with([](Request& r) { r.prompt_rows = model::Outputs::hidden; r.row_sink = [](auto...) {}; }),
            "hidden rows come without new tokens, 5 were asked for");
  EXPECT_EQ(engine_->metrics().refused_total.value(), 16u);
}

TEST_F(EngineTest, a_full_queue_refuses) {
  start({.step_time = 5ms}, {.max_running = 1, .max_queued = 2});
  std::vector<Handle> handles;
  handles.push_back(submit(story(100)));
  ASSERT_TRUE(handles[0].next(60s));  // it runs, so the queue is empty
  handles.push_back(submit(story(100)));
  handles.push_back(submit(story(100)));
  EXPECT_EQ(refusal(story(100)), "2 requests are waiting, at most 2 may");
  handles[1].cancel();
  EXPECT_EQ(read_all(handles[1]).finished, Finish::cancelled);
  handles[1] = submit(story(100));
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

TEST_F(EngineTest, a_row_sink_that_throws_ends_its_own_request_only) {  // P16
  start();
  Request bad = story(5), fine = story(40);
  bad.prompt_rows = model::Outputs::all;
  bad.row_sink = [](int, std::span<const float>, int) { throw std::runtime_error("disk full"); };
  Handle first = submit(fine), second = submit(bad);
  const Answer failed = read_all(second);
  EXPECT_EQ(failed.finished, Finish::error);
  EXPECT_EQ(failed.error->message, "the receiver of prompt rows failed: disk full");
  EXPECT_EQ(read_all(first).text, answer_alone(fine, tokenizer_).text);
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
