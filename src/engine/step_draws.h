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

  void clear() { rows_.clear(), draws_.clear(), n_copies_ = 0; }

  /// The next `count` rows of logits, none of which is drawn from.
  void skip(int count) { rows_.resize(rows_.size() + static_cast<std::size_t>(count)); }

  /// The next row is where `live` draws the token for `position`. `keep`: the row is handed out later, so it stays as
  /// it is.
  void add(const LiveRequest& live, int position, bool keep);

  /// From the same row `live` draws, too: another answer to the prompt that ends there.
  void add_answer(const LiveRequest& live);

  /// For the step; runs on any threads. Nothing where nothing is drawn.
  model::RowTask task() { return draws_.empty() ? model::RowTask{} : model::RowTask{run, this}; }

  /// After the step: what was drawn from a row that was added; by its answer number `answer`, of those that were added
  /// to it.
  sampling::Sampled take(std::size_t row) { return std::move(draws_[rows_[row].first].sampled); }
  sampling::Sampled take_answer(std::size_t row, std::size_t answer) {
    return std::move(draws_[rows_[row].first + 1 + answer].sampled);
  }

 private:
  static constexpr std::size_t kNoCopy = ~std::size_t{0};
  struct Draw {
    const LiveRequest* live = nullptr;
    sampling::Sampled sampled;
  };
  struct Row {
    std::size_t first = 0, count = 0;  // in draws_
    int position = 0;
    bool keep = false;
    std::size_t copy = kNoCopy;  // where in copies_ it is drawn from, if it is kept or drawn from more than once
  };
  void add_draw(const LiveRequest& live);
  void add_copy(Row& row);
  static void run(void* draws, int row, std::span<float> logits, std::span<std::byte> scratch) noexcept;

  std::size_t vocab_;
  std::vector<Row> rows_;  // [logits rows]
  std::vector<Draw> draws_;
  std::vector<float> copies_;  // [n_copies_ or more, vocab]
  std::size_t n_copies_ = 0;
};

}  // namespace millrace::engine
