#pragma once

// A runner without a model: the logits of a row are made up from the tokens before it, as they stand in a fake KV
// cache behind the block tables. A wrong block, a lost copy or a stale prefix so shows as another text.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/testing/fake_tokenizer.h"
#include "model/runner.h"
#include "sampling/sampler.h"

namespace millrace::engine::testing {

inline constexpr int kDim = 3;

inline std::uint32_t mix(std::uint32_t state, std::uint32_t value) {
  state = (state ^ value) * 0x85ebca6bu;
  return state ^ (state >> 15);
}

/// What stands for the model: a state from all tokens so far, and numbers from the state.
inline std::uint32_t state_after(std::span<const TokenId> tokens) {
  std::uint32_t state = 1;
  for (const TokenId token : tokens) state = mix(state, static_cast<std::uint32_t>(token) + 77);
  return state;
}

inline std::vector<float> row_of(std::uint32_t state, int width) {
  std::vector<float> row(static_cast<std::size_t>(width));
  for (int i = 0; i < width; ++i)
    row[static_cast<std::size_t>(i)] =
        static_cast<float>(mix(state, static_cast<std::uint32_t>(i)) >> 8) * 0x1p-21f - 4;
  row[0] -= width == kVocab ? 6 : 0;  // the end token is rare
  return row;
}

struct FakeRunnerOptions {
  int blocks = 64, block_tokens = 4, max_positions = 200;
  int step_tokens = 64, step_outputs = 32, slices = 16;
  int workers = 1;  // threads that run a row task
  std::chrono::microseconds step_time{0};
  std::function<bool(int step)> fails;  // steps count from 0; called while the step runs
  std::uint64_t fingerprint = 1;
};

class FakeRunner : public model::Runner {
 public:
  explicit FakeRunner(FakeRunnerOptions options) : options_(std::move(options)) {
    info_ = {.vocab_size = kVocab,
             .dim = kDim,
             .max_positions = options_.max_positions,
             .max_step_tokens = options_.step_tokens,
             .max_step_outputs = options_.step_outputs,
             .max_slices = options_.slices,
             .cache_groups = {{options_.block_tokens, 0, options_.blocks, options_.block_tokens * std::int64_t{sizeof(TokenId)}}},
             .kv_format = "tokens",
             .fingerprint = options_.fingerprint};
    cache_.assign(static_cast<std::size_t>(options_.blocks * options_.block_tokens), -1);
  }

  const model::RunnerInfo& info() const override { return info_; }

  model::Ticket submit(std::span<const model::StepSlice> slices, model::RowTask task) override {
    logits_.clear();
    hidden_.clear();
    std::set<BlockId> written;
    int n_tokens = 0;
    for (const auto& slice : slices) {
      MILLRACE_CHECK(!slice.tokens.empty() && slice.block_tables.size() == 1, "a slice has tokens and one table");
      n_tokens += static_cast<int>(slice.tokens.size());
      std::set<BlockId> own;
      for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
        const int position = slice.first + static_cast<int>(i);
        own.insert(slice.block_tables[0][static_cast<std::size_t>(position / options_.block_tokens)]);
        cell(slice, position) = slice.tokens[i];
      }
      for (const BlockId id : own) MILLRACE_CHECK(written.insert(id).second, "two slices write one block");
    }
    MILLRACE_CHECK(n_tokens <= options_.step_tokens, "a step has too many tokens");
    for (const auto& slice : slices) compute(slice);
    MILLRACE_CHECK(
        static_cast<int>(logits_.size()) / kVocab + static_cast<int>(hidden_.size()) / kDim <= options_.step_outputs,
        "a step returns too many rows");
    task_ = task;
    return {steps_++};
  }

  Result<model::StepOutputs> wait(model::Ticket ticket) override {
    MILLRACE_CHECK(ticket.step == steps_ - 1, "waited for another step");
    if (options_.step_time.count() > 0) std::this_thread::sleep_for(options_.step_time);
    if (options_.fails && options_.fails(static_cast<int>(ticket.step)))
      return error(Code::exhausted, "no memory for step {}", ticket.step);
    run_task();
    return model::StepOutputs{logits_, hidden_};
  }

  void copy_blocks(int, std::span<const BlockId> from, std::span<const BlockId> to) override {
    const auto n = static_cast<std::size_t>(options_.block_tokens);
    for (std::size_t i = 0; i < from.size(); ++i)
      for (std::size_t j = 0; j < n; ++j)
        cache_.at(static_cast<std::size_t>(to[i].value) * n + j) =
            cache_.at(static_cast<std::size_t>(from[i].value) * n + j);
  }

  void read_blocks(int, std::span<const BlockId> blocks, std::span<std::byte> to) const override {
    for (std::size_t i = 0; i < blocks.size(); ++i) std::memcpy(&to[i * block_bytes()], &cache_.at(first_cell(blocks[i])), block_bytes());
  }

  void write_blocks(int, std::span<const BlockId> blocks, std::span<const std::byte> from) override {
    for (std::size_t i = 0; i < blocks.size(); ++i) std::memcpy(&cache_.at(first_cell(blocks[i])), &from[i * block_bytes()], block_bytes());
  }

 private:
  std::size_t block_bytes() const { return static_cast<std::size_t>(options_.block_tokens) * sizeof(TokenId); }
  std::size_t first_cell(BlockId block) const { return static_cast<std::size_t>(block.value * options_.block_tokens); }
  TokenId& cell(const model::StepSlice& slice, int position) {
    const int n = options_.block_tokens;
    const BlockId block = slice.block_tables[0][static_cast<std::size_t>(position / n)];
    return cache_.at(static_cast<std::size_t>(block.value * n + position % n));
  }

  /// Rows from last to first, or shared out to threads: in no order that anybody may count on.
  void run_task() {
    if (!task_.run) return;
    std::atomic<int> left = static_cast<int>(logits_.size()) / kVocab;
    const auto work = [&] {
      std::vector<std::byte> scratch(sampling::scratch_bytes(kVocab));
      for (int row; (row = --left) >= 0;)
        task_.run(task_.context, row, std::span(logits_).subspan(static_cast<std::size_t>(row) * kVocab, kVocab), scratch);
    };
    std::vector<std::thread> others;
    for (int i = 1; i < options_.workers; ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
  }

  void compute(const model::StepSlice& slice) {
    const int end = slice.first + static_cast<int>(slice.tokens.size());
    std::vector<TokenId> tokens;
    for (int position = 0; position < end; ++position) {
      tokens.push_back(cell(slice, position));
      MILLRACE_CHECK(tokens.back() >= 0, "a position was read before it was written");
      const bool returned =
          slice.outputs == model::Outputs::last ? position == end - 1 : slice.outputs != model::Outputs::none;
      if (position < slice.first || !returned) continue;
      const bool hidden = slice.outputs == model::Outputs::hidden;
      const auto row = row_of(state_after(tokens), hidden ? kDim : kVocab);
      auto& rows = hidden ? hidden_ : logits_;
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }

  FakeRunnerOptions options_;
  model::RunnerInfo info_;
  std::vector<TokenId> cache_;  // [blocks, block_tokens]
  std::vector<float> logits_, hidden_;
  model::RowTask task_;
  std::int64_t steps_ = 0;
};

}  // namespace millrace::engine::testing
