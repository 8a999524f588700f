#pragma once

// Locally typical sampling (Meister et al., "Locally typical sampling", 2022): of a distribution, the tokens whose surprise,
// -log p, is nearest to the expected one, which is the entropy. In logits: -log p is the distance of a logit from the best
// one plus a constant, so these are the tokens whose logit is nearest to the mean logit, and nothing needs a logarithm.
// Allocates nothing.

#include <cmath>
#include <span>

#include "base/ids.h"
#include "sampling/selection.h"

namespace millrace::sampling {

/// The fewest tokens whose logit is nearest to `center` and that together have a share of the mass. Of two as near, the
/// better one goes first.
struct Typical {
  float center = 0;
  Cut last;  // the farthest of them

  bool has(float logit, TokenId token, float weight) const {
    const float distance = std::abs(logit - center), most = std::abs(last.logit - center);
    if (distance == most) [[unlikely]] return weight > 0 && within(last, logit, token);
    return (weight > 0) & (distance < most);  // no branch to be guessed wrong
  }
};

/// Of `tokens` (not empty, weights above 0) those with at least `share` (0, 1) of their mass, by rising id. Reorders `tokens`
/// and sorts what comes back, so it is for few.
std::span<TokenId> keep_typical(std::span<const float> logits, std::span<const float> weights, double share, std::span<TokenId> tokens);

/// Of all tokens of a weight above 0, those with at least `share` (0, 1) of their mass, up to the rounding of its sums.
///
///   logits, weights  [vocab]; some weight is above 0
///   least, most      no logit of a weight above 0 is less or more
///   tokens           scratch memory, [vocab]
Typical find_typical(std::span<const float> logits, std::span<const float> weights, float least, float most, double share,
                     std::span<TokenId> tokens);

}  // namespace millrace::sampling
