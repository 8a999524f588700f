#pragma once

// Locally typical sampling (Meister et al., "Locally typical sampling", 2022): of a distribution, the tokens whose surprise,
// -log p, is nearest to the expected one, which is the entropy. Allocates nothing.

#include <span>

#include "base/ids.h"

namespace millrace::sampling {

/// Of `tokens` the fewest whose surprise is nearest to the expected one and that together have at least `share` (0, 1) of
/// their mass, by rising id; at least one. Of two as near, the better one.
///
///   logits, weights  [vocab]; a weight is 2^((logit - r) * rate) for some r
///   tokens           the distribution, by rising id, weights above 0; reorders them and holds the result
std::span<TokenId> keep_typical(std::span<const float> logits, std::span<const float> weights, float rate, double share,
                                std::span<TokenId> tokens);

}  // namespace millrace::sampling
