// The prefix cache as a client sees it: who shares with whom, why a token was computed, what is computed once.

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <thread>

#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

using EngineCache = EngineTest;
using kv::MissCause;

std::vector<TokenId> letters(int n, int from = 10) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) tokens[static_cast<std::size_t>(i)] = from + i * i % 30;
  return tokens;
}

Request asking(std::vector<TokenId> prompt, int max_new = 2) {
  Request request = story(max_new);
  request.prompt = std::move(prompt);
  return request;
}

int of(const CacheReport& report, MissCause cause) { return report.computed[static_cast<std::size_t>(cause)]; }

/// What every report has to say.
void expect_complete(const Answer& answer) {
  EXPECT_EQ(std::accumulate(answer.cache.computed.begin(), answer.cache.computed.end(), answer.cache.cached), answer.usage.prompt_tokens);
  EXPECT_EQ(answer.cache.cached, answer.usage.cached_tokens);
}

void expect_same(const CacheReport& got, const CacheReport& want) {
  EXPECT_EQ(got.cached, want.cached);
  EXPECT_EQ(got.computed, want.computed);
  EXPECT_EQ(got.diverged_at, want.diverged_at);
  EXPECT_EQ(got.own, want.own);
  EXPECT_EQ(got.known, want.known);
}

TEST_F(EngineCache, explain_says_what_a_request_then_reports_and_changes_nothing) {  // A16
  for (unsigned seed = 0; seed < 8; ++seed) {
    Engine& engine = start({.blocks = seed % 2 == 0 ? 30 : 200});
    std::mt19937 rng(seed);
    bool any_cached = false, any_diverged = false;
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " request " + std::to_string(i));
      Request request = asking(letters(1 + static_cast<int>(rng() % 50), 10 + static_cast<int>(rng() % 3)));
      if (rng() % 2 == 0) request.prompt.back() = 9;
      request.cache_salt = rng() % 4 == 0 ? "other" : "";
      const CacheReport first = engine.explain(request.prompt, request.cache_salt), second = engine.explain(request.prompt, request.cache_salt);
      expect_same(second, first);
      const Answer answer = ask(request);
      expect_same(first, answer.cache);
      expect_complete(answer);
      any_cached = any_cached || first.cached > 0;
      any_diverged = any_diverged || first.diverged_at >= 0;
    }
    EXPECT_TRUE(any_cached && any_diverged);
  }
  EXPECT_EQ(engine_->explain({}).cached, 0);
  Engine& unshared = start({}, {.prefix_sharing = false});
  EXPECT_EQ(of(unshared.explain(letters(7)), MissCause::disabled), 7);
}

TEST_F(EngineCache, explain_does_not_keep_a_prefix_from_eviction) {
  start({.blocks = 12});
  const auto old = letters(21), young = letters(21, 12);
  ask(asking(old));
  ask(asking(young));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(engine_->explain(old).cached, 20);
  ask(asking(letters(25, 14)));  // takes the two free blocks and the five oldest
  EXPECT_EQ(engine_->explain(old).cached, 0);
  EXPECT_EQ(engine_->explain(young).cached, 20);
}

TEST_F(EngineCache, requests_share_within_one_salt_only) {  // A16
  start();
  Request request = asking(letters(21));
  request.cache_salt = "a";
  const Answer first = ask(request);
  EXPECT_EQ(ask(request).usage.cached_tokens, 20);
  for (const char* other : {"b", "", "aa"}) {
    request.cache_salt = other;
    const Answer answer = ask(request);
    EXPECT_EQ(answer.usage.cached_tokens, 0) << other;
    EXPECT_EQ(of(answer.cache, MissCause::salt), 20) << other;
    EXPECT_EQ(answer.ids, first.ids);
    expect_complete(answer);
  }
  request.cache_salt = std::string(1025, 'x');
  EXPECT_EQ(refusal(request), "cache_salt has 1025 bytes, at most 1024 are possible");
}

TEST_F(EngineCache, a_prompt_that_leaves_what_is_known_says_where_and_with_which_tokens) {  // A16
  start();
  const auto prompt = letters(21);
  const Answer first = ask(asking(prompt));
  EXPECT_EQ(of(first.cache, MissCause::first_seen), 21);
  EXPECT_EQ(first.cache.diverged_at, -1);
  expect_complete(first);

  auto other = prompt;
  other[14] = 9;  // ". "
  const Answer second = ask(asking(other));
  EXPECT_EQ(second.cache.cached, 12);
  EXPECT_EQ(of(second.cache, MissCause::partial_block), 2);
  EXPECT_EQ(of(second.cache, MissCause::diverged), 7);
  EXPECT_EQ(second.cache.diverged_at, 14);
  EXPECT_EQ(second.cache.own, ". ");
  EXPECT_EQ(second.cache.known, tokenizer_.piece(prompt[14]));
  expect_complete(second);
  const auto& counters = engine_->metrics().prefix_miss_tokens_total;
  EXPECT_EQ(counters[static_cast<std::size_t>(MissCause::first_seen)].value(), 21u);
  EXPECT_EQ(counters[static_cast<std::size_t>(MissCause::partial_block)].value(), 2u);
  EXPECT_EQ(counters[static_cast<std::size_t>(MissCause::diverged)].value(), 7u);
}

TEST_F(EngineCache, what_was_evicted_says_so) {  // A16
  start({.blocks = 12});
  const auto prompt = letters(21);
  ask(asking(prompt));
  ask(asking(letters(45, 11)));  // all twelve blocks
  const Answer again = ask(asking(prompt));
  EXPECT_EQ(again.cache.cached, 0);
  EXPECT_EQ(of(again.cache, MissCause::evicted), 20);
  EXPECT_EQ(of(again.cache, MissCause::partial_block), 1);
  expect_complete(again);
}

TEST_F(EngineCache, without_sharing_and_with_prompt_rows_the_cause_is_disabled) {  // A16
  start({}, {.prefix_sharing = false, .check_invariants = true});
  ask(asking(letters(21)));
  const Answer again = ask(asking(letters(21)));
  EXPECT_EQ(of(again.cache, MissCause::disabled), 21);
  expect_complete(again);

  start();
  Request request = asking(letters(21), 0);
  request.prompt_rows = model::Outputs::all;
  request.row_sink = [](auto...) {};
  EXPECT_EQ(of(ask(request).cache, MissCause::disabled), 21);
}

TEST_F(EngineCache, a_request_that_is_cancelled_in_the_queue_reports_nothing) {
  start({.step_time = 5ms}, {.max_running = 1});
  Handle runs = submit(asking(letters(5), 100)), waits = submit(asking(letters(21)));
  ASSERT_TRUE(runs.next(60s));
  waits.cancel();
  const Answer answer = read_all(waits);
  EXPECT_EQ(std::accumulate(answer.cache.computed.begin(), answer.cache.computed.end(), answer.cache.cached), 0);
}

TEST_F(EngineCache, eight_arrivals_with_one_prefix_of_1000_tokens_compute_it_once) {  // A16
  // Steps with room for all eight prompts: they are not kept apart by the budget. The decoy's step runs while they arrive.
  start({.blocks = 1100, .block_tokens = 8, .max_positions = 1200, .step_tokens = 9000, .step_time = 30ms}, {.step_tokens = 9000, .check_invariants = true});
  const Handle decoy = submit(asking(letters(4, 12), 50));
  std::this_thread::sleep_for(10ms);
  std::vector<Handle> handles;
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) {
    auto prompt = letters(1000);
    for (int j = 0; j < 20; ++j) prompt.push_back(10 + i);
    requests.push_back(asking(std::move(prompt), 4));
  }
  for (const Request& request : requests) handles.push_back(submit(request));
  int computed = 0;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const Answer answer = read_all(handles[i]);
    EXPECT_EQ(answer.ids, answer_alone(requests[i], tokenizer_).ids);
    EXPECT_EQ(answer.usage.cached_tokens, i == 0 ? 0 : 1000);
    computed += 1020 - answer.usage.cached_tokens;
    expect_complete(answer);
  }
  EXPECT_EQ(computed, 1000 + 8 * 20);
}

}  // namespace
}  // namespace millrace::engine
