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
    const sched::CacheState now = engine->cache();
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
  EXPECT_EQ(m.finished(engine::Finish::stop) + m.finished(engine::Finish::length), static_cast<std::uint64_t>(kRequests));
  EXPECT_EQ(m.kv_blocks_used.value(), 0);
  EXPECT_EQ(m.kv_blocks_total.value(), kPool);
  EXPECT_LE(m.kv_blocks_cached.value(), kPool);
  EXPECT_GT(m.kv_blocks_cached.value(), kPool / 2);
  EXPECT_EQ(m.running.value() + m.waiting.value(), 0);
}

/// Notes how many tokens each slice of each step has.
class StepLog : public BorrowedRunner {
 public:
  using Steps = std::vector<std::vector<int>>;
  StepLog(model::Runner& runner, Steps& steps) : BorrowedRunner(runner), steps_(steps) {}
  model::Ticket submit(std::span<const model::StepSlice> slices, model::RowTask task) override {
    std::vector<int>& counts = steps_.emplace_back();
    for (const model::StepSlice& slice : slices) counts.push_back(static_cast<int>(slice.tokens.size()));
    return BorrowedRunner::submit(slices, task);
  }

 private:
  Steps& steps_;
};

// In steps, not in seconds; bench stall has the seconds. The stream has a token in each step, so its gap is one chunk.
TEST_F(KvCases, O9_7_a_long_prompt_holds_up_neither_a_stream_nor_a_short_one) {
  // A step has room for the stream's token and 16 whole blocks: nothing is left for the short prompt but what is kept for it.
  constexpr int kLong = 8000, kShort = 10, kStep = 257, kAloneSteps = (kLong + kStep - 1) / kStep;
  const TinyFile file({.positions = 8192});
  const auto model = file.load({.pool_tokens = kLong + 1024, .block_tokens = kBlock});
  StepLog::Steps steps;
  {
    engine::Engine engine(std::make_unique<StepLog>(*model, steps), tokenizer_, {.step_tokens = kStep, .check_invariants = true});
    std::promise<void> begun, arrived;  // the stream's first step lasts until the others are there
    engine::Request streaming = greedy(digits(16), 300);
    streaming.prompt_rows = model::Outputs::all;
    streaming.row_sink = [&begun, seen = arrived.get_future().share()](auto...) {
      begun.set_value();
      seen.wait_for(std::chrono::seconds(60));
    };
    auto stream = engine.submit(std::move(streaming)).value();
    begun.get_future().wait();
    auto long_prompt = engine.submit(greedy(digits(kLong), 1)).value();
    auto short_prompt = engine.submit(greedy(tiny_prompt(3, kShort), 1)).value();
    arrived.set_value();
    EXPECT_EQ(collect(stream).answer.ids.size(), 300u);
    EXPECT_EQ(collect(long_prompt).answer.ids.size(), 1u);
    EXPECT_EQ(collect(short_prompt).answer.ids.size(), 1u);
  }
  int with_long = 0, short_done = -1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto has = [&](int count) { return std::ranges::count(steps[i], count) > 0; };
    if (has(kShort)) short_done = static_cast<int>(i);
    if (std::ranges::max(steps[i]) <= 16) continue;
    ++with_long;
    EXPECT_TRUE(has(1)) << "step " << i << " has no token of the stream";
  }
  EXPECT_GE(with_long, kAloneSteps);
  EXPECT_LT(with_long, 2 * kAloneSteps);
  EXPECT_EQ(short_done, 1);  // in the first one after it arrived
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
