#pragma once

// The log-probabilities of a prompt's own tokens, from the rows of the prompt as they are computed: position i's row says how
// likely the token at i + 1 was. Nothing is said of the first token, which follows nothing.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "sampling/sampler.h"

namespace millrace::engine {

/// Per token of the prompt it takes 12 bytes and 8 for each of `n_top`, from the start; and scratch for one row.
class PromptLogprobs {
 public:
  /// Makes `request`, whose prompt is complete, collect: sets prompt_rows and row_sink. `n_top`:
  /// [0, sampling::kMostTopLogprobs]. What it holds is read when an event with a token or the last one was: the engine does
  /// not touch it any more then.
  static std::shared_ptr<const PromptLogprobs> collect(Request& request, int n_top);

  /// Positions of the prompt that are known, from the first on: all, unless the request ended before.
  int known() const { return known_; }

  /// Of the token at `position` [1, known).
  sampling::RowLogprob at(int position) const { return tokens_[static_cast<std::size_t>(position)]; }

  /// The likeliest tokens there, best first.
  std::span<const sampling::TokenLogprob> top(int position) const {
    return std::span(top_).subspan(static_cast<std::size_t>(position) * n_top_, static_cast<std::size_t>(n_tops_[static_cast<std::size_t>(position)]));
  }

 private:
  PromptLogprobs(std::vector<TokenId> prompt, int n_top);
  void add(int first, std::span<const float> rows, int width);

  std::vector<TokenId> prompt_;
  std::size_t n_top_;
  int known_ = 1;
  std::vector<sampling::RowLogprob> tokens_;  // [prompt]
  std::vector<int> n_tops_;                   // [prompt]
  std::vector<sampling::TokenLogprob> top_;   // [prompt, n_top]
  std::vector<std::byte> scratch_;
};

}  // namespace millrace::engine
