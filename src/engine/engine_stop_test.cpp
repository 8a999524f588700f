// What ends a text, how early it may, what of it stays, and what the client is told of it.

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace testing;

using EngineStop = EngineTest;

int stop_string(const Answer& answer) {
  const auto* reason = std::get_if<StopString>(&answer.stop_reason);
  return reason ? reason->index : -1;
}

TokenId stop_token(const Answer& answer) {
  const auto* reason = std::get_if<StopToken>(&answer.stop_reason);
  return reason ? reason->id : -1;
}

TEST_F(EngineStop, neither_end_token_nor_stop_token_comes_before_min_tokens_and_the_rest_is_drawn_as_without_them) {
  start({.workers = 2});
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int least : {0, 1, 7}) {
      Request request = story();
      request.ignore_eos = false;
      request.sampling.temperature = temperature;
      request.stop_token_ids = {20};
      request.min_tokens = least;
      Request without = request;
      request.sampling.logit_bias = {{kEnd, 100.0f}, {20, 40.0f}};
      without.sampling.logit_bias = {{kEnd, -100.0f}, {20, -100.0f}};
      std::vector<TokenId> want = answer_alone(without, tokenizer_).ids;
      want.resize(static_cast<std::size_t>(least));
      want.push_back(kEnd);
      const Answer got = ask(request);
      EXPECT_EQ(got.finished, Finish::stop);
      EXPECT_EQ(got.ids, want);
      EXPECT_EQ(got.usage.completion_tokens, least + 1);
      EXPECT_EQ(stop_token(got), -1);  // the end token is no reason of its own

      request.ignore_eos = true;  // then it is a token like any other
      request.sampling.logit_bias = {{20, 100.0f}, {21, 50.0f}};
      const Answer by_id = ask(request);
      EXPECT_EQ(by_id.finished, Finish::stop);
      want.assign(static_cast<std::size_t>(least), 21);
      want.push_back(20);
      EXPECT_EQ(by_id.ids, want);
      EXPECT_EQ(stop_token(by_id), 20);
    }
  }
}

TEST_F(EngineStop, each_of_several_answers_has_its_min_tokens) {
  Engine& engine = start();
  Request request = story();
  request.ignore_eos = false;
  request.min_tokens = 3;
  request.sampling.logit_bias = {{kEnd, 100.0f}};
  auto handles = engine.submit(request, 3);
  ASSERT_TRUE(handles);
  for (Handle& handle : *handles) EXPECT_EQ(read_all(handle).usage.completion_tokens, 4);
}

TEST_F(EngineStop, a_request_whose_every_token_is_a_stop_token_has_its_min_tokens_all_the_same) {
  start();
  Request request = story();
  request.min_tokens = 5;
  for (TokenId token = 0; token < kVocab; ++token) request.stop_token_ids.push_back(token);
  const Answer got = ask(request);
  EXPECT_EQ(got.finished, Finish::stop);
  EXPECT_EQ(got.usage.completion_tokens, 6);
}

TEST_F(EngineStop, a_stop_string_complete_with_the_first_min_tokens_is_none_and_may_stay_in_the_text) {
  start();
  const Answer whole = answer_alone(story(), tokenizer_);
  for (const int least : {0, 5, 30, 60}) {
    text::Detokenizer detokenizer(tokenizer_, true);
    std::size_t early = 0;  // bytes that min_tokens give
    for (int i = 0; i < least; ++i) early += detokenizer.push(whole.ids[static_cast<std::size_t>(i)]).size();
    for (std::size_t at = 0; at + 3 <= whole.text.size(); at += 2) {
      Request request = story();
      request.min_tokens = least;
      request.stop = {"no such text", whole.text.substr(at, 3)};
      if (!is_valid_utf8(request.stop[1])) continue;
      std::size_t begin = 0;
      while ((begin = whole.text.find(request.stop[1], begin)) != std::string::npos && begin + 3 <= early) ++begin;
      if (least == 60) begin = std::string::npos;  // what comes after the last token counts as its text
      const bool found = begin != std::string::npos;
      for (const bool include : {false, true}) {
        request.include_stop = include;
        const Answer got = ask(request);
        EXPECT_EQ(got.text, whole.text.substr(0, found ? begin + (include ? 3 : 0) : begin)) << "stop '" << request.stop[1] << "' after " << least;
        EXPECT_EQ(got.finished, found ? Finish::stop : Finish::length);
        EXPECT_EQ(stop_string(got), found ? 1 : -1);
      }
    }
  }
}

TEST_F(EngineStop, a_stop_token_stays_in_the_text_where_that_is_asked_for_and_special_tokens_are_shown) {
  start();
  Request request = story();
  request.include_stop = true;
  request.sampling.logit_bias = {{20, 100.0f}};
  request.stop_token_ids = {20};
  EXPECT_EQ(ask(request).text, tokenizer_.piece(20));
  request.ignore_eos = false;
  request.sampling.logit_bias = {{kEnd, 100.0f}};
  EXPECT_EQ(ask(request).text, "");
  request.keep_special = true;
  EXPECT_EQ(ask(request).text, "<end>");
}

TEST_F(EngineStop, an_end_that_is_no_stop_has_no_reason) {
  start();
  Request request = story(5);
  request.stop = {"no such text"};
  request.stop_token_ids = {20};
  request.sampling.logit_bias = {{20, -100.0f}};
  const Answer got = ask(request);
  EXPECT_EQ(got.finished, Finish::length);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(got.stop_reason));
}

}  // namespace
}  // namespace millrace::engine
