// The same bits, always: what a request gets does not depend on batch, chunks, cache, preemption or neighbours.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "engine/testing/reference.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

/// `n` requests that use everything: shared prefixes, all kinds of sampling, lengths around block borders.
std::vector<Request> mixed_requests(int n, unsigned seed, int most_prompt = 40, int most_new = 30) {
  std::mt19937 rng(seed);
  const auto pick = [&](int limit) { return static_cast<int>(rng() % static_cast<unsigned>(limit)); };
  std::vector<Request> requests(static_cast<std::size_t>(n));
  for (Request& request : requests) {
    const int family = pick(3), length = 1 + pick(most_prompt);
    for (int i = 0; i < length; ++i) request.prompt.push_back(2 + (family * 7 + i * 3) % (kVocab - 2));
    request.max_new_tokens = 1 + pick(most_new);
    request.sampling.seed = rng();
    request.sampling.temperature = pick(4) == 0 ? 0.0f : 1.0f;
    if (pick(3) == 0) request.sampling.top_k = 5;
    if (pick(3) == 0) request.sampling.top_p = 0.8f;
    if (pick(3) == 0) request.sampling.repetition_penalty = 1.2f;
    if (pick(3) == 0) request.sampling.frequency_penalty = 0.5f;
    request.ignore_eos = pick(2) == 0;
    request.priority = pick(3);
  }
  return requests;
}

void expect_all_as_alone(Engine& engine, const std::vector<Request>& requests) {
  const FakeTokenizer tokenizer;
  std::vector<Handle> handles;
  for (const Request& request : requests) {
    auto handle = engine.submit(request);
    ASSERT_TRUE(handle.ok()) << handle.error().message;
    handles.push_back(std::move(handle).value());
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    const Answer want = answer_alone(requests[i], tokenizer), got = read_all(handles[i]);
    EXPECT_EQ(got.finished, want.finished);
    EXPECT_EQ(got.ids, want.ids);
    EXPECT_EQ(got.text, want.text);
    EXPECT_EQ(got.usage.completion_tokens, static_cast<int>(want.ids.size()));
  }
}

void expect_every_block_back(const Engine& engine) {
  const EngineMetrics& m = engine.metrics();
  EXPECT_EQ(m.kv_blocks_used.value(), 0);  // what is not used is free or cached: the invariants say so
  EXPECT_EQ(m.running.value() + m.waiting.value(), 0);
  EXPECT_EQ(m.prompt_tokens_total.value(), m.computed_tokens_total.value() + m.cached_tokens_total.value());
}

TEST(EngineIdentity, any_batch_chunk_and_cache_setting_gives_the_texts_of_solo_runs) {  // A21
  const FakeTokenizer tokenizer;
  const std::vector<Request> requests = mixed_requests(20, 1);
  for (const int step_tokens : {1, 3, 8, 64})
    for (const int running : {1, 3, 16})
      for (const bool sharing : {false, true})
        for (const int block_tokens : {1, 4, 16}) {
          SCOPED_TRACE(::testing::Message() << "step " << step_tokens << " running " << running << " sharing "
                                            << sharing << " block " << block_tokens);
          Engine engine(std::make_unique<FakeRunner>(
                            FakeRunnerOptions{.blocks = 400 / block_tokens, .block_tokens = block_tokens}),
                        tokenizer,
                        {.step_tokens = step_tokens,
                         .max_running = running,
                         .prefix_sharing = sharing,
                         .check_invariants = true});
          expect_all_as_alone(engine, requests);
          expect_every_block_back(engine);
        }
}

TEST(EngineIdentity, rows_drawn_by_any_worker_give_the_texts_of_solo_runs) {  // A21
  const FakeTokenizer tokenizer;
  for (const int workers : {1, 2, 4}) {
    SCOPED_TRACE(std::to_string(workers) + " workers");
    std::vector<Request> requests = mixed_requests(16, 3);
    for (std::size_t i = 0; i < requests.size(); i += 4) {  // a row that is drawn from and handed out
      requests[i].prompt_rows = model::Outputs::all;
      requests[i].row_sink = [](auto...) {};
    }
    Engine engine(std::make_unique<FakeRunner>(FakeRunnerOptions{.blocks = 300, .step_outputs = 64, .workers = workers}), tokenizer, {.check_invariants = true});
    expect_all_as_alone(engine, requests);
    expect_every_block_back(engine);
  }
}

TEST(EngineIdentity, twenty_requests_in_a_pool_of_a_quarter_of_the_need_give_the_texts_of_solo_runs) {  // A21, B1, B4
  const FakeTokenizer tokenizer;
  std::uint64_t preemptions = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<Request> requests = mixed_requests(20, seed, 20, 60);
    int need = 0, most = 0;
    for (const Request& request : requests) {
      const int blocks = (static_cast<int>(request.prompt.size()) + request.max_new_tokens + 3) / 4;
      need += blocks;
      most = std::max(most, blocks);
    }
    Engine engine(std::make_unique<FakeRunner>(FakeRunnerOptions{.blocks = std::max(need / 4, most), .slices = 32}),
                  tokenizer, {.check_invariants = true});
    expect_all_as_alone(engine, requests);
    expect_every_block_back(engine);
    preemptions += engine.metrics().preemptions_total.value();
  }
  EXPECT_GT(preemptions, 20u);
}

TEST(EngineIdentity, cancelled_neighbours_leave_no_trace) {  // A21, P16
  const FakeTokenizer tokenizer;
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Engine engine(std::make_unique<FakeRunner>(FakeRunnerOptions{.blocks = 40, .step_time = 200us}), tokenizer,
                  {.check_invariants = true});
    std::vector<Handle> doomed;
    for (const Request& request : mixed_requests(10, seed + 100)) doomed.push_back(engine.submit(request).value());
    std::thread killer([&] {
      for (Handle& handle : doomed) {
        std::this_thread::sleep_for(1ms);
        handle.cancel();
      }
    });
    expect_all_as_alone(engine, mixed_requests(10, seed));
    killer.join();
    for (Handle& handle : doomed) EXPECT_TRUE(read_all(handle).finished);
    expect_every_block_back(engine);
  }
}

TEST(EngineIdentity, prompt_rows_come_once_each_in_order_whatever_the_schedule) {
  const FakeTokenizer tokenizer;
  std::uint64_t preemptions = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<Request> requests = mixed_requests(12, seed);
    std::vector<std::vector<float>> rows(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const bool hidden = i % 3 == 0, all = i % 3 == 1;
      if (!hidden && !all) continue;
      requests[i].prompt_rows = hidden ? model::Outputs::hidden : model::Outputs::all;
      if (hidden) requests[i].max_new_tokens = 0;
      requests[i].row_sink = [&rows, i, width = hidden ? kDim : kVocab](int first, std::span<const float> some, int w) {
        EXPECT_EQ(w, width);
        EXPECT_EQ(first * w, static_cast<int>(rows[i].size()));
        rows[i].insert(rows[i].end(), some.begin(), some.end());
      };
    }
    Engine engine(std::make_unique<FakeRunner>(FakeRunnerOptions{.blocks = 22, .step_outputs = 6, .slices = 6}),
                  tokenizer, {.check_invariants = true});
    expect_all_as_alone(engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      std::vector<float> want;
      const int width = requests[i].prompt_rows == model::Outputs::hidden ? kDim : kVocab;
      for (std::size_t n = 1; requests[i].row_sink && n <= requests[i].prompt.size(); ++n) {
        const auto row = row_of(state_after(std::span(requests[i].prompt).first(n)), width);
        want.insert(want.end(), row.begin(), row.end());
      }
      EXPECT_TRUE(rows[i] == want) << "request " << i << ": " << rows[i].size() << " numbers, expected " << want.size();
    }
    preemptions += engine.metrics().preemptions_total.value();
  }
  EXPECT_GT(preemptions, 0u);
}

TEST(EngineIdentity, a_storm_of_threads_cancels_slow_readers_deadlines_and_failing_steps_hurts_nobody_else) {  // P16
  const FakeTokenizer tokenizer;
  std::atomic<int> finished{0}, failed{0}, gone{0};
  for (unsigned seed = 0; seed < 8; ++seed) {
    Engine engine(std::make_unique<FakeRunner>(FakeRunnerOptions{
                      .blocks = 30, .step_time = 50us, .fails = [](int step) { return step % 97 == 96; }}),
                  tokenizer, {.step_tokens = 24, .max_running = 8, .check_invariants = true});
    std::vector<std::thread> clients;
    for (unsigned client = 0; client < 4; ++client)
      clients.emplace_back([&, client] {
        std::mt19937 rng(seed * 10 + client);
        for (Request& request : mixed_requests(12, seed * 10 + client)) {
          const auto mood = rng() % 8;
          if (mood == 0) request.timeout_us = 1 + rng() % 3000;
          if (mood == 1) request.max_unread_tokens = 2;
          auto handle = engine.submit(request);
          ASSERT_TRUE(handle.ok()) << handle.error().message;
          if (mood == 1) std::this_thread::sleep_for(2ms);
          if (mood == 2) handle.value().cancel();
          if (mood == 3) continue;  // dropped
          const Answer got = read_all(handle.value()), want = answer_alone(request, tokenizer);
          ASSERT_TRUE(got.finished);
          if (got.finished == Finish::error) {
            ++failed;
          } else if (got.finished == Finish::stop || got.finished == Finish::length) {
            ++finished;
            EXPECT_EQ(got.text, want.text);
          } else {
            ++gone;
            EXPECT_TRUE(mood <= 2);
          }
        }
      });
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(engine.drain(60s), 0);
    expect_every_block_back(engine);
  }
  EXPECT_GT(finished, 100);
  EXPECT_GT(failed, 0);
  EXPECT_GT(gone, 0);
}

}  // namespace
}  // namespace millrace::engine
