// Every way in which a request ends, and that its neighbours do not notice.

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

using EngineFinish = EngineTest;

TEST_F(EngineFinish, ends_by_length_with_the_text_of_its_tokens) {  // A18
  start();
  const Answer want = answer_alone(story(), tokenizer_), got = ask(story());
  EXPECT_EQ(got.finished, Finish::length);
  EXPECT_EQ(got.ids, want.ids);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.usage.prompt_tokens, 5);
  EXPECT_EQ(got.usage.completion_tokens, 60);
}

TEST_F(EngineFinish, ends_by_the_end_token_which_counts_and_has_no_text) {  // A18
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

TEST_F(EngineFinish, ends_by_a_stop_token_id) {  // A18
  start();
  Request request = story();
  request.sampling.logit_bias = {{20, 100.0f}};
  request.stop_token_ids = {21, 20};
  const Answer got = ask(request);
  EXPECT_EQ(got.finished, Finish::stop);
  EXPECT_EQ(got.ids, std::vector<TokenId>{20});
  EXPECT_EQ(got.text, "");
}

TEST_F(EngineFinish, ends_before_any_stop_string_of_the_text_wherever_it_lies) {  // A18
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

TEST_F(EngineFinish, ends_by_cancel_within_one_step) {  // A18
  Engine& engine = start({.step_time = 1ms});
  Handle handle = submit(story(150));
  ASSERT_TRUE(handle.next(60s));
  handle.cancel();
  const std::uint64_t steps = engine.metrics().steps_total.value();
  EXPECT_EQ(read_all(handle).finished, Finish::cancelled);
  EXPECT_LE(engine.metrics().steps_total.value(), steps + 2);  // the one that ran, and one that had begun
  EXPECT_FALSE(handle.next(60s));                              // nothing follows, at once
}

TEST_F(EngineFinish, ends_by_deadline_while_it_runs_and_while_it_waits) {  // A18
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

TEST_F(EngineFinish, ends_by_the_error_of_its_step_and_no_other_request_does) {  // A18, P16
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
    EXPECT_EQ(engine_->metrics().finished(Finish::error), 1u);
  }
}

TEST_F(EngineFinish, a_client_that_does_not_read_is_cancelled_and_its_neighbour_is_not) {  // P16
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

TEST_F(EngineFinish, a_dropped_handle_cancels_its_request) {
  Engine& engine = start({.step_time = 1ms});
  { const Handle dropped = submit(story(150)); }
  EXPECT_EQ(engine.drain(60s), 0);
  EXPECT_EQ(engine.metrics().finished(Finish::cancelled), 1u);
  EXPECT_EQ(engine.metrics().kv_blocks_used.value(), 0);
}

TEST_F(EngineFinish, drain_waits_for_what_runs_cuts_the_rest_and_refuses_new_requests) {
  Engine& engine = start({.step_time = 1ms});
  Handle brief = submit(story(3)), long_one = submit(story(150)), other = submit(story(150));
  EXPECT_EQ(engine.drain(30ms), 2);
  EXPECT_EQ(read_all(brief).finished, Finish::length);
  EXPECT_EQ(read_all(long_one).finished, Finish::cancelled);
  EXPECT_EQ(read_all(other).finished, Finish::cancelled);
  EXPECT_EQ(refusal(story()), "the engine takes no new requests, it is about to stop");
  EXPECT_EQ(engine.drain(0ms), 0);
}

TEST_F(EngineFinish, open_requests_end_when_the_engine_does) {
  start({.step_time = 1ms}, {.max_running = 1});
  Handle running = submit(story(150)), waiting = submit(story(150));
  engine_.reset();
  EXPECT_EQ(read_all(running).finished, Finish::cancelled);
  EXPECT_EQ(read_all(waiting).finished, Finish::cancelled);
}

TEST_F(EngineFinish, a_row_sink_that_throws_ends_its_own_request_only) {  // P16
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

}  // namespace
}  // namespace millrace::engine
