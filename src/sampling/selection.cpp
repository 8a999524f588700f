#include "sampling/selection.h"

#include <algorithm>
#include <limits>

namespace millrace::sampling {

void select_best(std::span<const float> logits, int n, std::vector<Candidate>& best) {
  best.clear();
  const auto wanted = static_cast<std::size_t>(n);
  // A buffer of twice the number: when it is full, half of it can go, and the worst that stays is the bar from then
  // on. Nearly all tokens then cost one comparison.
  const std::size_t room = std::max<std::size_t>(2 * wanted, 64);
  float bar = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // An equal one comes later, so its id is higher: it cannot get in once `wanted` are there.
    if (!(logits[i] > bar) && best.size() >= wanted) continue;
    best.push_back({static_cast<TokenId>(i), logits[i], 0});
    if (best.size() < room) continue;
    std::ranges::nth_element(best, best.begin() + n - 1, better);
    best.resize(wanted);
    bar = best.back().logit;
  }
  if (best.size() > wanted) {
    std::ranges::nth_element(best, best.begin() + n - 1, better);
    best.resize(wanted);
  }
}

Cut find_mass(std::vector<Candidate>& candidates, double mass) {
  // Halves the part that the border lies in: a quickselect by weight. [0, lo) is within, and `mass` is what is left.
  std::size_t lo = 0, hi = candidates.size();
  const auto at = [&](std::size_t i) { return candidates.begin() + static_cast<std::ptrdiff_t>(i); };
  while (hi - lo > 1) {
    const std::size_t middle = lo + (hi - lo) / 2;
    std::nth_element(at(lo), at(middle), at(hi), better);
    double upper = 0;
    for (std::size_t i = lo; i < middle; ++i) upper += candidates[i].weight;
    if (upper >= mass) {
      hi = middle;
    } else {
      mass -= upper;
      lo = middle;
    }
  }
  return {candidates[lo].logit, candidates[lo].token};
}

Cut find_mass(std::span<const float> logits, std::span<const float> weights, float max, float temperature, double mass,
              std::vector<Candidate>& candidates) {
  // Weights by distance from the best, 32 bins for each factor of e: the border's bin holds few tokens.
  constexpr int kBinsPerUnit = 32, kBins = 88 * kBinsPerUnit;
  const auto bin_of = [&](float logit) {
    return static_cast<int>(std::min((max - logit) / temperature, 87.99f) * kBinsPerUnit);
  };
  double bins[kBins] = {};
  for (std::size_t i = 0; i < logits.size(); ++i) bins[bin_of(logits[i])] += weights[i];
  int border = 0;
  for (; border < kBins && bins[border] < mass; ++border) mass -= bins[border];
  // Rounding left the sum short of the mass: all are within.
  if (border == kBins) return {-std::numeric_limits<float>::infinity(), static_cast<TokenId>(logits.size())};
  candidates.clear();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (bin_of(logits[i]) == border) candidates.push_back({static_cast<TokenId>(i), logits[i], weights[i]});
  return find_mass(candidates, mass);
}

}  // namespace millrace::sampling
