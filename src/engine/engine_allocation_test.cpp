// P15: a decode step of the whole engine allocates nothing on its thread; and P16: whatever fails inside one request ends that
// request alone. Replaces the operator new of this test program.

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/testing/count_allocations.h"
#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

/// Allocates nothing in a step. Rows are made up from their index alone.
class LeanRunner : public model::Runner {
 public:
  LeanRunner(std::vector<long>& counts, std::vector<Handle>& clients, std::atomic<bool>& ready) : counts_(counts), clients_(clients), ready_(ready) {
    info_ = {.vocab_size = kVocab, .dim = 1, .max_positions = 1000, .max_step_tokens = 64, .max_step_outputs = 16, .max_slices = 16, .cache_groups = {{4, 0, 2000}}};
    logits_.resize(16 * kVocab);
  }
  const model::RunnerInfo& info() const override { return info_; }

  model::Ticket submit(std::span<const model::StepSlice> slices, model::RowTask task) override {
    if (counts_.size() < counts_.capacity()) counts_.push_back(millrace::testing::t_allocations);
    rows_ = 0;
    for (const auto& slice : slices) rows_ += slice.outputs == model::Outputs::last;
    task_ = task;
    return {steps_++};
  }

  Result<model::StepOutputs> wait(model::Ticket) override {
    for (std::size_t i = 0; i < logits_.size(); ++i) logits_[i] = static_cast<float>(i * 7919 % 101) * 0.1f;
    for (int row = 0; row < rows_ && task_.run; ++row)
      task_.run(task_.context, row, std::span(logits_).subspan(static_cast<std::size_t>(row) * kVocab, kVocab), scratch_);
    // Clients that read each token at once; what they allocate is theirs.
    millrace::testing::t_counts = false;
    while (!ready_.load()) std::this_thread::yield();
    for (Handle& client : clients_) client.next(0ms);
    millrace::testing::t_counts = true;
    return model::StepOutputs{std::span(logits_).first(static_cast<std::size_t>(rows_ * kVocab)), {}};
  }

  void copy_blocks(int, std::span<const BlockId>, std::span<const BlockId>) override {}
  void read_blocks(int, std::span<const BlockId>, std::span<std::byte>) const override {}
  void write_blocks(int, std::span<const BlockId>, std::span<const std::byte>) override {}

 private:
  std::vector<long>& counts_;
  std::vector<Handle>& clients_;
  std::atomic<bool>& ready_;
  model::RunnerInfo info_;
  std::vector<float> logits_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(sampling::scratch_bytes(kVocab));
  model::RowTask task_;
  int rows_ = 0;
  std::int64_t steps_ = 0;
};

TEST(EngineAllocation, a_decode_step_of_the_engine_allocates_nothing) {  // P15
  std::vector<long> counts;
  counts.reserve(400);
  std::vector<Handle> clients;
  std::atomic<bool> ready = false;
  const FakeTokenizer tokenizer;
  Engine engine(std::make_unique<LeanRunner>(counts, clients, ready), tokenizer, {.max_step_us = 100'000});
  for (int i = 0; i < 8; ++i) {
    Request request = story(450, static_cast<std::uint64_t>(i));
    request.prompt.assign(10, 10 + i);
    request.sampling.temperature = i % 2 ? 0.0f : 1.0f;
    request.sampling.top_k = i % 3 ? 0 : 20;
    request.tpot_slo_us = i % 4 ? 0 : 50'000;
    if (i % 4 == 2) request.stop = {"never said"};
    auto handle = engine.submit(std::move(request));
    ASSERT_TRUE(handle.ok());
    clients.push_back(std::move(handle).value());
  }
  ready = true;
  engine.drain(60s);
  ASSERT_EQ(counts.size(), 400u);
  for (std::size_t step = 50; step < 400; ++step) EXPECT_EQ(counts[step] - counts[step - 1], 0) << "step " << step;
}

class EngineFailures : public EngineTest {
 protected:
  /// Four stories beside `bad`, which fails in its own way; they must not notice. Returns what `bad` got.
  Answer beside(Request bad) {
    std::vector<Request> fine;
    for (int i = 0; i < 4; ++i) fine.push_back(story(30 + i, 100 + static_cast<std::uint64_t>(i)));
    std::vector<Handle> handles;
    for (int i = 0; i < 2; ++i) handles.push_back(submit(fine[static_cast<std::size_t>(i)]));
    Handle failing = submit(std::move(bad));
    for (int i = 2; i < 4; ++i) handles.push_back(submit(fine[static_cast<std::size_t>(i)]));
    const Answer got = read_all(failing);
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const Answer neighbour = read_all(handles[i]);
      EXPECT_EQ(neighbour.text, answer_alone(fine[i], tokenizer_).text);
      EXPECT_EQ(neighbour.finished, Finish::length);
    }
    EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
    EXPECT_EQ(engine_->metrics().finished(Finish::error), 1u);
    return got;
  }
};

TEST_F(EngineFailures, a_receiver_of_rows_that_throws_anything_at_any_chunk_ends_its_request_only) {  // P16
  for (int failing = 1; failing <= 5; ++failing) {
    start({}, {.step_tokens = 8, .max_running = 5, .check_invariants = true});
    Request bad = story(5);
    bad.prompt.assign(40, 30);
    bad.prompt_rows = model::Outputs::all;
    int rows = 0;
    bad.row_sink = [&](int, std::span<const float>, int) {
      if (++rows >= failing) throw 5;
    };
    const Answer got = beside(bad);
    EXPECT_EQ(got.finished, Finish::error);
    ASSERT_TRUE(got.error);
    EXPECT_EQ(got.error->message, "the receiver of prompt rows failed");
  }
}

/// Cannot spell one of its tokens.
class BrokenTokenizer : public FakeTokenizer {
 public:
  static constexpr TokenId kBroken = 46;
  std::string_view piece(TokenId token) const override {
    if (token == kBroken) throw std::runtime_error("token 46 has no piece");
    return FakeTokenizer::piece(token);
  }
};

TEST_F(EngineFailures, a_token_that_cannot_become_text_ends_its_request_only) {  // P16
  const BrokenTokenizer broken;
  engine_ = std::make_unique<Engine>(std::make_unique<FakeRunner>(FakeRunnerOptions{}), broken, EngineOptions{.check_invariants = true});
  std::vector<Request> fine;
  for (int i = 0; i < 3; ++i) {
    fine.push_back(story(30, 100 + static_cast<std::uint64_t>(i)));
    fine.back().sampling.logit_bias = {{BrokenTokenizer::kBroken, -100.0f}};
  }
  Request bad = story(60);
  bad.sampling.logit_bias = {{BrokenTokenizer::kBroken, 3.0f}};
  Handle failing = submit(bad);
  std::vector<Handle> handles;
  for (const Request& request : fine) handles.push_back(submit(request));
  const Answer got = read_all(failing);
  EXPECT_EQ(got.finished, Finish::error);
  ASSERT_TRUE(got.error);
  EXPECT_EQ(got.error->message, "making text of a token failed: token 46 has no piece");
  for (std::size_t i = 0; i < handles.size(); ++i) EXPECT_EQ(read_all(handles[i]).text, answer_alone(fine[i], tokenizer_).text);
  EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
}

TEST_F(EngineFailures, a_step_that_fails_ends_those_in_it_and_who_waits_runs) {  // P16
  for (int failing = 0; failing < 8; ++failing) {
    start({.fails = [=](int step) { return step == failing; }}, {.max_running = 2, .check_invariants = true});
    std::vector<Request> requests;
    for (int i = 0; i < 8; ++i) requests.push_back(story(3 + i, static_cast<std::uint64_t>(i)));
    std::vector<Handle> handles;
    for (const Request& request : requests) handles.push_back(submit(request));
    int failed = 0;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const Answer got = read_all(handles[i]);
      failed += got.finished == Finish::error;
      if (got.finished == Finish::error) continue;
      EXPECT_EQ(got.text, answer_alone(requests[i], tokenizer_).text);
    }
    EXPECT_GE(failed, 1);
    EXPECT_LE(failed, 2);
    EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
  }
}

}  // namespace
}  // namespace millrace::engine
