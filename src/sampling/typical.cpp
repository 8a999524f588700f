#include "sampling/typical.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();

/// Logits no farther from a center than some distance: low <= logit < above.
struct Band {
  float low, above;
  Band(float center, float distance) : low(std::max(center - distance, -kLargest)), above(std::nextafter(center + distance, kInfinity)) {}
  bool has(float logit) const { return (logit >= low) & (logit < above); }
};

struct Mass {
  double total = 0, logits = 0;  // sums of weights, and of weights times logits
};

/// By eight sums side by side; each has its own elements, so their order is one.
Mass mass_of(std::span<const float> logits, std::span<const float> weights) {
  constexpr std::size_t kSums = 8;
  double totals[kSums] = {}, products[kSums] = {};
  for (std::size_t i = 0; i < logits.size(); i += kSums)
    for (std::size_t s = 0; s < std::min(kSums, logits.size() - i); ++s) {
      const double weight = weights[i + s];
      totals[s] += weight;
      products[s] += weight > 0 ? weight * logits[i + s] : 0;  // a logit may be -inf
    }
  Mass mass;
  for (std::size_t s = 0; s < kSums; ++s) mass.total += totals[s], mass.logits += products[s];
  return mass;
}

/// Orders tokens: the one nearer to `center` first.
auto nearer_to(float center, std::span<const float> logits) {
  return [center, logits](TokenId a, TokenId b) {
    const float x = std::abs(logits[static_cast<std::size_t>(a)] - center), y = std::abs(logits[static_cast<std::size_t>(b)] - center);
    return x != y ? x < y : better_by(logits)(a, b);
  };
}

}  // namespace

std::span<TokenId> keep_typical(std::span<const float> logits, std::span<const float> weights, double share, std::span<TokenId> tokens) {
  Mass all;
  for (const TokenId token : tokens) {
    const double weight = weights[static_cast<std::size_t>(token)];
    all.total += weight;
    all.logits += weight * logits[static_cast<std::size_t>(token)];
  }
  const auto center = static_cast<float>(all.logits / all.total);
  const std::span<TokenId> kept = first_with_mass(weights, tokens, share * all.total, nearer_to(center, logits));
  std::ranges::sort(kept);
  return kept;
}

Typical find_typical(std::span<const float> logits, std::span<const float> weights, float least, float most, double share,
                     std::span<TokenId> tokens) {
  constexpr double kFew = 2048;
  constexpr int kMostRounds = 24;  // thirds of what is left: to the last bit of a float
  const Mass all = mass_of(logits, weights);
  const float center = static_cast<float>(all.logits / all.total);
  const double mass = share * all.total;

  // The farthest one is in `outer` and not in `inner`, which has less than the mass.
  float near = 0, far = std::min(std::max(most - center, center - least) * 1.001f, kLargest);
  double inner_sum = 0;
  bool has_inner = false;
  for (int round = 0; round < kMostRounds; ++round) {
    const Band outer(center, far), inner(center, near);
    const BoundSums counts = counts_from(logits, {outer.low, outer.above, inner.low, inner.above});
    if (counts[0] - counts[1] - (has_inner ? counts[2] - counts[3] : 0) <= kFew) break;
    const float third = (far - near) / 3, distances[] = {near + third, far - third};
    const Band first(center, distances[0]), second(center, distances[1]);
    const BoundSums sums = sums_from(logits, weights, {first.low, first.above, second.low, second.above});
    const double within[] = {sums[0] - sums[1], sums[2] - sums[3]};
    for (int i = 0; i < 2; ++i) {
      if (within[i] >= mass) {
        far = distances[i];
        break;
      }
      near = distances[i], inner_sum = within[i], has_inner = true;
    }
  }

  const Band outer(center, far), inner(center, near);
  std::size_t n = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool in_outer = outer.has(logits[i]), in_inner = has_inner && inner.has(logits[i]);
    if (in_outer != in_inner && weights[i] > 0) tokens[n++] = static_cast<TokenId>(i);  // inner is a part of outer
  }
  if (n == 0) return {center, {inner.low, static_cast<TokenId>(logits.size())}};  // by rounding: the mass ends with the inner ones
  const TokenId last = first_with_mass(weights, tokens.first(n), mass - inner_sum, nearer_to(center, logits)).back();
  return {center, {logits[static_cast<std::size_t>(last)], last}};
}

}  // namespace millrace::sampling
