#include "engine/prompt_logprobs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace testing;

using PromptLogprobsTest = EngineTest;

Request long_prompt(int tokens, int max_new) {
  Request request = story(max_new);
  request.prompt.clear();
  for (int i = 0; i < tokens; ++i) request.prompt.push_back(2 + (i * i + 3 * i) % (kVocab - 2));
  return request;
}

/// By definition, in doubles.
double logprob(std::span<const TokenId> before, TokenId token) {
  const auto row = row_of(state_after(before), kVocab);
  double sum = 0;
  for (const float logit : row) sum += std::exp(double{logit});
  return row[static_cast<std::size_t>(token)] - std::log(sum);
}

TEST_F(PromptLogprobsTest, each_token_has_its_own_after_those_before_it_whatever_the_chunks_with_new_tokens_and_without) {
  std::vector<float> first_run;
  for (const int step_outputs : {16, 32, 5})
    for (const int max_new : {0, 1, 20}) {
      SCOPED_TRACE(std::to_string(step_outputs) + " rows a step, " + std::to_string(max_new) + " new tokens");
      start({.step_outputs = step_outputs, .slices = 5}, {.step_tokens = 24, .max_running = 5, .check_invariants = true});
      Request request = long_prompt(64, max_new);
      const Answer want = answer_alone(request, tokenizer_);
      const auto logprobs = PromptLogprobs::collect(request, 3);
      Handle other = submit(story(40, 9));
      const Answer got = ask(request);
      EXPECT_EQ(got.text, want.text);
      ASSERT_EQ(logprobs->known(), 64);
      std::vector<float> all;
      for (int i = 1; i < 64; ++i) {
        const auto before = std::span<const TokenId>(request.prompt).first(static_cast<std::size_t>(i));
        const TokenId token = request.prompt[static_cast<std::size_t>(i)];
        EXPECT_NEAR(logprobs->at(i).logprob, logprob(before, token), 1e-5);
        ASSERT_EQ(logprobs->top(i).size(), 3u);
        if (logprobs->at(i).rank <= 3) {
          EXPECT_EQ(logprobs->top(i)[static_cast<std::size_t>(logprobs->at(i).rank) - 1].token, token);
        }
        all.push_back(logprobs->at(i).logprob);
        for (const sampling::TokenLogprob& best : logprobs->top(i)) all.push_back(best.logprob);
      }
      if (first_run.empty()) first_run = all;
      EXPECT_EQ(all, first_run);  // to the bit
      EXPECT_EQ(read_all(other).text, answer_alone(story(40, 9), tokenizer_).text);
    }
}

TEST_F(PromptLogprobsTest, a_cached_prompt_has_all_of_them_again_and_equal) {  // O9.2
  start();
  std::vector<float> runs[2];
  for (auto& run : runs) {
    Request request = long_prompt(64, 1);
    const auto logprobs = PromptLogprobs::collect(request, 1);
    ask(request);
    ASSERT_EQ(logprobs->known(), 64);
    for (int i = 1; i < 64; ++i) run.push_back(logprobs->at(i).logprob), run.push_back(logprobs->top(i)[0].logprob);
    EXPECT_GT(ask(long_prompt(64, 1)).usage.cached_tokens, 0);  // without echo
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(PromptLogprobsTest, they_are_there_when_the_first_new_token_is_and_a_preemption_changes_nothing) {
  std::uint64_t preemptions = 0;
  for (int n = 2; n <= 6; ++n) {
    Engine& engine = start({.blocks = 22, .step_outputs = 6, .slices = 6});
    std::vector<std::shared_ptr<const PromptLogprobs>> all;
    std::vector<Handle> handles;
    std::vector<Request> requests;
    for (int i = 0; i < n; ++i) {
      Request request = long_prompt(20 + i, 40);
      request.sampling.seed = static_cast<std::uint64_t>(i);
      all.push_back(PromptLogprobs::collect(request, 0));
      requests.push_back(request);
      handles.push_back(submit(request));
    }
    int open = n;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const auto event = handles[i].next(std::chrono::seconds(60));
      ASSERT_TRUE(event);
      ASSERT_FALSE(event->tokens.empty());
      open -= event->finished ? 1 : 0;
      ASSERT_EQ(all[i]->known(), static_cast<int>(requests[i].prompt.size()));
      for (int at = 1; at < all[i]->known(); ++at)
        EXPECT_NEAR(all[i]->at(at).logprob, logprob(std::span<const TokenId>(requests[i].prompt).first(static_cast<std::size_t>(at)), requests[i].prompt[static_cast<std::size_t>(at)]), 1e-5);
    }
    for (Handle& handle : handles) open -= read_all(handle).finished == Finish::length ? 1 : 0;
    EXPECT_EQ(open, 0);
    preemptions += engine.metrics().preemptions_total.value();
  }
  EXPECT_GT(preemptions, 0u);
}

TEST_F(PromptLogprobsTest, a_prompt_of_one_token_has_none_and_a_request_that_ends_early_some) {
  start({.step_outputs = 5, .slices = 5, .fails = [](int step) { return step == 3; }}, {.step_tokens = 8, .max_running = 5});
  Request one = long_prompt(1, 1), early = long_prompt(64, 1);
  const auto none = PromptLogprobs::collect(one, 2);
  EXPECT_EQ(ask(one).finished, Finish::length);
  EXPECT_EQ(none->known(), 1);
  const auto some = PromptLogprobs::collect(early, 2);
  EXPECT_EQ(ask(early).finished, Finish::error);
  EXPECT_GT(some->known(), 1);
  EXPECT_LT(some->known(), 64);
}

}  // namespace
}  // namespace millrace::engine
