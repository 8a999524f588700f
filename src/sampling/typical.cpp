#include "sampling/typical.h"

#include <algorithm>
#include <cmath>

#include "sampling/selection.h"

namespace millrace::sampling {

std::span<TokenId> keep_typical(std::span<const float> logits, std::span<const float> weights, float rate, double share,
                                std::span<TokenId> tokens) {
  if (tokens.empty()) return tokens;
  const auto logit = [&](TokenId token) { return logits[static_cast<std::size_t>(token)]; };
  const float reference = logit(tokens.front());
  // In bits, -log p is this distance plus one constant for all tokens, so the difference from its mean needs no logarithm.
  const auto distance = [&](TokenId token) -> double { return (reference - logit(token)) * rate; };
  double total = 0, mean = 0;
  for (const TokenId token : tokens) {
    const double weight = weights[static_cast<std::size_t>(token)];
    total += weight;
    mean += weight * distance(token);
  }
  mean /= total;
  const auto before = [&](TokenId a, TokenId b) {
    const double x = std::abs(distance(a) - mean), y = std::abs(distance(b) - mean);
    if (x != y) return x < y;
    return better_by(logits)(a, b);
  };
  const std::span<TokenId> kept = first_with_mass(weights, tokens, share * total, before);
  std::ranges::sort(kept);
  return kept;
}

}  // namespace millrace::sampling
