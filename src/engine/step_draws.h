#pragma once

// The draws of one step: which row of logits is whose, and what came out. The workers draw, each row for itself: they
// read requests, which nobody changes while a step runs, and write their own entry.

#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "engine/live_request.h"
#include "model/runner.h"

namespace millrace::engine {

class StepDraws {
 public:
  void clear() { rows_.clear(), draws_ = false; }

  /// The next `count` rows of logits, none of which is drawn from.
  void skip(int count) { rows_.resize(rows_.size() + static_cast<std::size_t>(count)); }

  /// The next row is where `live` draws the token for `position`. `keep`: the row is handed out later, so it stays as it is.
  void add(const LiveRequest& live, int position, bool keep);

  /// From the same row `live` draws, too: another answer to the prompt that ends there.
  void add_answer(const LiveRequest& live) { rows_.back().answers.push_back({.live = &live, .sampled = {}, .failure = {}}); }

  /// For the step; runs on any threads. Nothing where nothing is drawn.
  model::RowTask task() { return draws_ ? model::RowTask{run, this} : model::RowTask{}; }

  /// After the step: what was drawn from a row that was added, or what it failed with (no memory).
  Result<sampling::Sampled> take(std::size_t row) { return take(rows_[row].own); }
  Result<sampling::Sampled> take_answer(std::size_t row, std::size_t i) { return take(rows_[row].answers[i]); }

 private:
  struct Draw {
    const LiveRequest* live = nullptr;
    sampling::Sampled sampled;
    std::exception_ptr failure;
  };
  struct Row {
    Draw own;
    int position = 0;
    bool keep = false;
    std::vector<Draw> answers;
  };
  static void draw(Draw& one, std::span<float> logits, int position, bool keep) noexcept;
  static Result<sampling::Sampled> take(Draw& one);
  static void run(void* draws, int row, std::span<float> logits) noexcept;

  std::vector<Row> rows_;  // [logits rows]
  bool draws_ = false;
};

}  // namespace millrace::engine
