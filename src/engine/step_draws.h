#pragma once

// The draws of one step: which row of logits is whose, and what came out. The workers draw, each row for itself: they
// read requests, which nobody changes while a step runs, and write their own entry. Whatever memory that takes is there
// before the step, so that no worker allocates: it has nobody to tell of a failure.

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "engine/live_request.h"
#include "model/runner.h"

namespace millrace::engine {

class StepDraws {
 public:
  explicit StepDraws(int vocab_size) : vocab_(static_cast<std::size_t>(vocab_size)) {}

  void clear() { rows_.clear(), n_kept_ = 0, draws_ = false; }

  /// The next `count` rows of logits, none of which is drawn from.
  void skip(int count) { rows_.resize(rows_.size() + static_cast<std::size_t>(count)); }

  /// The next row is where `live` draws the token for `position`. `keep`: the row is handed out later, so it stays as it is.
  void add(const LiveRequest& live, int position, bool keep);

  /// For the step; runs on any threads. Nothing where nothing is drawn.
  model::RowTask task() { return draws_ ? model::RowTask{run, this} : model::RowTask{}; }

  /// After the step: what was drawn from a row that was added.
  sampling::Sampled take(std::size_t row) { return std::move(rows_[row].sampled); }

 private:
  static constexpr std::size_t kOverwrite = ~std::size_t{0};
  struct Row {
    const LiveRequest* live = nullptr;
    int position = 0;
    std::size_t copy = kOverwrite;  // where in copies_ it is drawn from, if the row is kept
    sampling::Sampled sampled;
  };
  static void run(void* draws, int row, std::span<float> logits, std::span<std::byte> scratch) noexcept;

  std::size_t vocab_;
  std::vector<Row> rows_;      // [logits rows]
  std::vector<float> copies_;  // [n_kept_ or more, vocab]
  std::size_t n_kept_ = 0;
  bool draws_ = false;
};

}  // namespace millrace::engine
