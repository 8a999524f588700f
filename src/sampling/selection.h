#pragma once

// The best of a vocabulary without sorting it. Better is: higher logit, or the same and a lower id. Allocates nothing.

#include <algorithm>
#include <span>

#include "base/ids.h"
#include "sampling/row_loops.h"

namespace millrace::sampling {

/// Orders token ids: the better one first.
inline auto better_by(std::span<const float> logits) {
  return [logits](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
}

/// The `n` best tokens by rising id; fewer where fewer are above -inf. n >= 1. No NaN, no +inf.
///
///   chunk_peaks  what find_peak gave, in any order; reorders them
///   tokens       scratch memory as long as `logits`, which holds the result
std::span<TokenId> select_best(std::span<const float> logits, std::span<float> chunk_peaks, int n, std::span<TokenId> tokens);

/// The best tokens are those up to and with this one.
struct Cut {
  float logit = 0;
  TokenId token = 0;
};

inline bool within(const Cut& cut, float logit, TokenId token) {
  return logit != cut.logit ? logit > cut.logit : token <= cut.token;
}

/// The fewest first of `tokens` (not empty), in the order `before`, whose weights sum to at least `mass`; at least one. The
/// last of these is the last that comes back. Reorders `tokens`. A quickselect by weight.
template <class Before>
std::span<TokenId> first_with_mass(std::span<const float> weights, std::span<TokenId> tokens, double mass, const Before& before) {
  // Halves the part that the border lies in. [0, lo) is within, and `mass` is what is left.
  std::size_t lo = 0, hi = tokens.size();
  const auto at = [&](std::size_t i) { return tokens.begin() + static_cast<std::ptrdiff_t>(i); };
  while (hi - lo > 1) {
    const std::size_t middle = lo + (hi - lo) / 2;
    std::nth_element(at(lo), at(middle), at(hi), before);
    double upper = 0;
    for (std::size_t i = lo; i < middle; ++i) upper += weights[static_cast<std::size_t>(tokens[i])];
    if (upper >= mass) {
      hi = middle;
    } else {
      mass -= upper;
      lo = middle;
    }
  }
  return tokens.first(lo + 1);
}

/// Where the fewest best of `tokens` end whose weights sum to at least `mass`; at least one is within. Reorders `tokens`
/// (not empty). logits, weights: [vocab]
Cut find_mass(std::span<const float> logits, std::span<const float> weights, std::span<TokenId> tokens, double mass);

/// What one token in 64 says of the whole row.
struct Estimate {
  float peak = 0;        // the largest logit among them: no more than the row's
  Bounds near_cut = {};  // falling logits about where `share` of the row's mass is above: between 3 deviations less and 3 more
};
inline constexpr std::size_t kLeastForEstimate = 16384;  // tokens
/// Of at least kLeastForEstimate tokens. Useless where they hold NaN or +inf, or are all -inf. A share of 1 has no cut.
Estimate estimate(std::span<const float> logits, float rate, double share);

/// Top-p over a vocabulary: where the fewest best end whose weights sum to at least `share` of all, (0, 1); and the sum
/// of those. row_loops.h says in which order sums are made.
///
///   weights     [vocab]; `total` and `peak` are what weigh() gave with them
///   near_cut    where to look first; infinite: nowhere
///   chunk_sums  out, [chunks]: of the weights within
///   tokens      scratch memory, [vocab]
struct Nucleus {
  Cut cut;
  double sum = 0;
};
Nucleus find_nucleus(std::span<const float> logits, std::span<const float> weights, const Scale& scale, float peak, double share,
                     double total, const Bounds& near_cut, std::span<double> chunk_sums, std::span<TokenId> tokens);

}  // namespace millrace::sampling
