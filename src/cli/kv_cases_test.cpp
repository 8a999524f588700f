// Kind 9 of the reported cases, scheduler and KV cache, as far as they need what the program does not print: rows of a
// prompt, salts, log-probabilities of answers, counts of preemptions and blocks, who ran in which step. Through the engine,
// with a tiny random model. What `run` shows is in tests/cli/kv_cases_test.py, which also says what waits for the server.

#include <gtest/gtest.h>

#include <functional>

#include "cli/testing/tiny_engine.h"

namespace millrace::cli {
namespace {

using namespace testing;

constexpr int kBlock = 16;

/// The first n digits of 0741852963 repeated, as tokens.
std::vector<TokenId> digits(int n) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i) out.push_back(2 + "0741852963"[i % 10] - '0');
  return out;
}

engine::Request greedy(std::vector<TokenId> prompt, int new_tokens) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = new_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  request.sampling.top_logprobs = 3;
  return request;
}

/// An engine of its own, with the model in it.
class KvCases : public ::testing::Test {
 protected:
  std::unique_ptr<engine::Engine> start(int pool_tokens, engine::EngineOptions options = {}, int positions = 256) const {
    const TinyFile file({.positions = positions});
    options.check_invariants = true;
    return std::make_unique<engine::Engine>(file.load({.pool_tokens = pool_tokens, .block_tokens = kBlock}), tokenizer_, options);
  }

  static Collected run(engine::Engine& engine, const engine::Request& request) {
    auto handle = engine.submit(request).value();
    return collect(handle);
  }

  /// As from an engine that has run nothing else.
  Answer fresh(const engine::Request& request) const { return run(*start(1024), request).answer; }

  engine::testing::FakeTokenizer tokenizer_;
};

TEST_F(KvCases, O9_2_rows_of_a_prompt_are_all_there_beside_a_cached_prefix) {
  const auto engine = start(1024);
  const auto rows = [&] {
    std::vector<float> all;
    engine::Request request = greedy(digits(64), 1);
    request.prompt_rows = model::Outputs::all;
    request.row_sink = [&all](int first, std::span<const float> some, int width) {
      EXPECT_EQ(first * width, std::ssize(all));
      all.insert(all.end(), some.begin(), some.end());
    };
    const Collected got = run(*engine, request);
    EXPECT_EQ(got.answer.ids.size(), 1u);
    return all;
  };
  const std::vector<float> cold = rows();
  EXPECT_EQ(cold.size(), 64u * engine::testing::kVocab);
  run(*engine, greedy(digits(64), 1));
  EXPECT_EQ(run(*engine, greedy(digits(64), 1)).usage.cached_tokens, 48);
  EXPECT_TRUE(rows() == cold);
}

TEST_F(KvCases, O9_3_who_was_pushed_out_says_what_it_says_alone) {
  using Change = std::function<void(engine::Request&, int)>;
  const std::vector<std::pair<const char*, Change>> variants = {
      {"greedy", [](auto&, int) {}},
      {"sampled", [](auto& r, int i) { r.sampling.temperature = 1, r.sampling.seed = static_cast<std::uint64_t>(70 + i); }},
      {"penalties", [](auto& r, int) { r.sampling.repetition_penalty = 1.3f, r.sampling.frequency_penalty = 0.4f, r.sampling.presence_penalty = 0.2f; }},
      {"sampled, stop strings", [](auto& r, int i) { r.sampling.temperature = 1, r.sampling.seed = static_cast<std::uint64_t>(i), r.stop = {"STOP", "zz"}; }},
  };
  for (const auto& [name, change] : variants) {
    SCOPED_TRACE(name);
    const auto engine = start(10 * kBlock);
    std::vector<engine::Request> requests;
    for (int i = 0; i < 4; ++i) {
      requests.push_back(greedy(digits(5 + 2 * i), 100));
      change(requests.back(), i);
    }
    Gate gate(*engine);
    std::vector<engine::Handle> handles;
    for (const engine::Request& request : requests) handles.push_back(engine->submit(request).value());
    gate.open();
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const Collected got = collect(handles[i]);
      EXPECT_TRUE(got.answer == fresh(requests[i])) << "request " << i;
      EXPECT_EQ(static_cast<std::size_t>(got.usage.completion_tokens), got.answer.ids.size());  // none twice
      EXPECT_EQ(got.usage.prompt_tokens, 5 + 2 * static_cast<int>(i));
    }
    EXPECT_GT(engine->metrics().preemptions_total.value(), 0u);
    EXPECT_EQ(engine->metrics().kv_blocks_used.value(), 0);
  }
}

TEST_F(KvCases, O9_3_what_can_never_fit_is_refused_at_once_with_the_numbers) {
  const auto engine = start(10 * kBlock);
  const auto refused = engine->submit(greedy(digits(61), 100));
  ASSERT_FALSE(refused.ok());
  EXPECT_PRED2(io::testing::says, refused.error().message, "61 ... 100 ... 160");
  EXPECT_EQ(run(*engine, greedy(digits(60), 100)).answer.ids.size(), 100u);
  EXPECT_EQ(run(*engine, greedy(digits(60), -1)).answer.finish, engine::Finish::length);
}

TEST_F(KvCases, O9_4_nothing_is_shared_across_salts) {
  const auto engine = start(1024);
  engine::Request request = greedy(digits(64), 8);
  const Answer want = fresh(request);
  for (const char* salt : {"x", "y", "", "adapter", "X"}) {  // adapters come later; their number is in the salt already
    request.cache_salt = salt;
    const Collected cold = run(*engine, request), warm = run(*engine, request);
    EXPECT_EQ(cold.usage.cached_tokens, 0) << salt;
    EXPECT_EQ(warm.usage.cached_tokens, 48) << salt;
    EXPECT_TRUE(cold.answer == want && warm.answer == want) << salt;
  }
}

TEST_F(KvCases, O9_5_two_thousand_requests_leave_no_block_used) {
  constexpr int kRequests = 2000, kAtOnce = 8, kPool = 64;
  const auto engine = start(kPool * kBlock);
  const engine::EngineMetrics& m = engine->metrics();
  std::vector<engine::Handle> open;
  int answered = 0;
  const auto end_oldest = [&] {
    answered += collect(open.front()).answer.ids.size() == 3;
    open.erase(open.begin());
    const engine::CacheSnapshot now = engine->cache();
    EXPECT_EQ(now.pools[0].used + now.pools[0].cached + now.pools[0].free, kPool);
    EXPECT_LE(now.pools[0].used, 2 * kAtOnce);
  };
  for (int i = 0; i < kRequests; ++i) {
    std::vector<TokenId> prompt = digits(17);
    for (int digit = 0, rest = i; digit < 4; ++digit, rest /= 10) prompt[static_cast<std::size_t>(digit)] = 20 + rest % 10;  // its own first block
    open.push_back(engine->submit(greedy(std::move(prompt), 3)).value());
    if (open.size() == kAtOnce) end_oldest();
  }
  while (!open.empty()) end_oldest();
  EXPECT_EQ(answered, kRequests);
  EXPECT_EQ(engine->drain(std::chrono::seconds(60)), 0);
  EXPECT_EQ(m.finished_total.value(), static_cast<std::uint64_t>(kRequests));
  EXPECT_EQ(m.kv_blocks_used.value(), 0);
  EXPECT_EQ(m.kv_blocks_total.value(), kPool);
  EXPECT_LE(m.kv_blocks_cached.value(), kPool);
  EXPECT_GT(m.kv_blocks_cached.value(), kPool / 2);
  EXPECT_EQ(m.running.value() + m.waiting.value(), 0);
}

// In steps, not in seconds; bench stall has the seconds. The stream has a token in each step, so its gap is one chunk.
TEST_F(KvCases, O9_7_a_long_prompt_holds_up_neither_a_stream_nor_a_short_one) {
  constexpr int kLong = 8000, kStep = 256, kAloneSteps = (kLong + kStep - 1) / kStep;
  const auto engine = start(kLong + 1024, {.step_tokens = kStep}, 8192);
  const auto stamp = [](Microseconds submitted_us, const engine::TokenEvent& token) { return submitted_us + token.at_us; };
  const auto tokens_of = [&](engine::Handle& handle, std::vector<engine::TokenEvent> tokens = {}) {
    while (const auto event = handle.next(std::chrono::seconds(60))) tokens.insert(tokens.end(), event->tokens.begin(), event->tokens.end());
    return tokens;
  };
  const Microseconds stream_us = now_us();
  auto stream = engine->submit(greedy(digits(16), 300)).value();
  const auto begun = stream.next(std::chrono::seconds(60));
  ASSERT_TRUE(begun && !begun->tokens.empty());

  Gate gate(*engine);
  const Microseconds long_us = now_us();
  auto long_prompt = engine->submit(greedy(digits(kLong), 1)).value();
  const Microseconds short_us = now_us();
  auto short_prompt = engine->submit(greedy(tiny_prompt(3, 10), 1)).value();
  gate.open();
  const Microseconds short_first_us = stamp(short_us, tokens_of(short_prompt)[0]), long_first_us = stamp(long_us, tokens_of(long_prompt)[0]);
  EXPECT_LT(short_first_us, long_first_us);

  const auto tokens = tokens_of(stream, begun->tokens);
  const auto in = [&](Microseconds from_us, Microseconds to_us) {
    return std::ranges::count_if(tokens, [&](const auto& token) { return stamp(stream_us, token) > from_us && stamp(stream_us, token) <= to_us; });
  };
  ASSERT_EQ(tokens.size(), 300u);
  ASSERT_GT(stamp(stream_us, tokens.back()), long_first_us);    // it streamed all the time
  EXPECT_LE(in(short_us, short_first_us), 3);                   // the step that was open, and the one that has both
  EXPECT_GE(in(short_us, long_first_us), kAloneSteps);          // a token in each step of the long prompt
  EXPECT_LE(in(short_us, long_first_us), 2 * kAloneSteps);      // which takes less than twice the steps it takes alone
}

TEST_F(KvCases, O9_8_what_neighbours_say_changes_no_bit) {
  const Answer want = fresh(greedy(digits(33), 32));
  const auto engine = start(4096, {.prefix_sharing = false});
  const auto with_neighbours = [&](std::vector<int> lengths, int content) {
    Gate gate(*engine);
    std::vector<engine::Handle> neighbours;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      neighbours.push_back(engine->submit(greedy(tiny_prompt(content + static_cast<int>(i), lengths[i]), 32)).value());
    auto handle = engine->submit(greedy(digits(33), 32)).value();
    gate.open();
    const Answer got = collect(handle).answer;
    for (engine::Handle& neighbour : neighbours) collect(neighbour);
    return got;
  };
  for (int content = 0; content < 20; ++content) EXPECT_TRUE(with_neighbours({16, 48, 65}, content) == want) << content;
  EXPECT_TRUE(with_neighbours({}, 0) == want);
  EXPECT_TRUE(with_neighbours({16, 48, 65, 1, 15, 17, 31}, 3) == want);
}

}  // namespace
}  // namespace millrace::cli
