#include "sampling/selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "sampling/row_loops.h"

namespace millrace::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The tokens that a cut may still be at: those with low <= logit < high. S(b), the weights of all logits of at least
/// b, is at least the mass for b = low and less for b = high.
struct Bracket {
  float low = 0, high = 0;
  double sum_low = 0, sum_high = 0;

  void narrow(const Bounds& bounds, const BoundSums& sums, double mass) {
    for (std::size_t b = 0; b < kBounds; ++b) {
      if (sums[b] >= mass && bounds[b] > low) low = bounds[b], sum_low = sums[b];
      if (sums[b] < mass && bounds[b] < high) high = bounds[b], sum_high = sums[b];
    }
  }
  bool one_value() const { return std::nextafter(low, kInfinity) >= high; }
};

/// Four bounds near the cut, from one token in 32: the mass of a bin of logits there stands for that of the row. The
/// estimate's deviation is sqrt(p (1 - p) / n) for equal weights; the bounds are one and three of it away.
Bounds sampled_bounds(std::span<const float> logits, std::span<const float> weights, float max, float rate, double share) {
  constexpr std::size_t kTogether = 16, kStride = 32 * kTogether;
  constexpr int kBinsPerUnit = 128, kBins = 24 * kBinsPerUnit;
  float bins[kBins] = {};
  double total = 0, n = 0;
  for (std::size_t begin = 0; begin + kTogether <= logits.size(); begin += kStride)
    for (std::size_t i = begin; i < begin + kTogether; ++i) {
      const float distance = (max - logits[i]) * rate;
      bins[distance < 24 ? static_cast<int>(distance * kBinsPerUnit) : kBins - 1] += weights[i];
      total += weights[i];
      ++n;
    }
  const double deviation = std::sqrt(share * (1 - share) / n);
  const double shares[kBounds] = {share - 3 * deviation, share - deviation, share + deviation, share + 3 * deviation};
  Bounds bounds;
  double sum = 0;
  int bin = 0;
  for (std::size_t b = 0; b < kBounds; ++b) {
    for (; bin < kBins && sum < shares[b] * total; ++bin) sum += bins[bin];
    bounds[b] = max - static_cast<float>(bin) / kBinsPerUnit / rate;
  }
  return bounds;
}

/// Four bounds around where the cut is if the mass lies evenly in the bracket; or four that cut it into fifths.
Bounds inner_bounds(const Bracket& bracket, double mass, bool fifths) {
  const double width = static_cast<double>(bracket.high) - bracket.low;
  const double guess = (bracket.sum_low - mass) / (bracket.sum_low - bracket.sum_high);
  const double steps[kBounds] = {-1.0 / 16, -1.0 / 64, 1.0 / 64, 1.0 / 16};
  Bounds bounds;
  for (std::size_t b = 0; b < kBounds; ++b) {
    const double at = fifths ? static_cast<double>(b + 1) / 5 : guess + steps[b];
    // At least one of them moves the bracket, as long as a float lies inside.
    bounds[b] = std::clamp(static_cast<float>(bracket.low + at * width), std::nextafter(bracket.low, kInfinity), std::nextafter(bracket.high, -kInfinity));
  }
  return bounds;
}

}  // namespace

void select_best(std::span<const float> logits, std::span<float> chunk_peaks, int n, std::span<TokenId> tokens,
                 std::vector<Candidate>& best) {
  const auto wanted = static_cast<std::size_t>(n);
  best.clear();
  // n chunks have a logit of at least the n-th best peak, so the n best tokens are not under it.
  float bar = -kInfinity;
  if (wanted <= chunk_peaks.size()) {
    std::ranges::nth_element(chunk_peaks, chunk_peaks.begin() + n - 1, std::greater{});
    bar = chunk_peaks[wanted - 1];
  }
  if (bar > -kInfinity) {
    const std::size_t found = find_between(logits, bar, kInfinity, tokens);
    for (const TokenId token : tokens.first(found)) best.push_back({token, logits[static_cast<std::size_t>(token)], 0});
  } else {
    for (std::size_t i = 0; i < logits.size(); ++i) best.push_back({static_cast<TokenId>(i), logits[i], 0});
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

Cut find_mass(std::span<const float> logits, std::span<const float> weights, float max, float rate, double mass,
              double total, std::span<TokenId> tokens, std::vector<Candidate>& candidates) {
  constexpr std::size_t kFew = 512;
  // Weights end at a distance of 88.
  Bracket bracket{std::max(max - 90 / rate, -std::numeric_limits<float>::max()), std::nextafter(max, kInfinity), total, 0};
  const bool sample = logits.size() >= 32 * kFew;
  bool fifths = !sample;
  for (bool first = true; !bracket.one_value() && logits.size() > kFew; first = false) {
    // None of the undecided has less weight than the lowest would.
    const double most = (bracket.sum_low - bracket.sum_high) / exp_of_negative((bracket.low - max) * rate);
    if (most <= kFew) break;
    const Bounds bounds = first && sample ? sampled_bounds(logits, weights, max, rate, mass / total) : inner_bounds(bracket, mass, fifths);
    const double width = static_cast<double>(bracket.high) - bracket.low;
    bracket.narrow(bounds, sums_from(logits, weights, bounds), mass);
    fifths = static_cast<double>(bracket.high) - bracket.low > width / 4;  // the guess was wrong
  }
  const std::span<const TokenId> undecided = tokens.first(find_between(logits, bracket.low, bracket.high, tokens));
  double left = mass - bracket.sum_high;
  if (bracket.one_value()) {  // equals: by id
    const double weight = weights[static_cast<std::size_t>(undecided[0])];
    std::size_t last = 0;
    for (; last + 1 < undecided.size() && left > weight; ++last) left -= weight;
    return {bracket.low, undecided[last]};
  }
  candidates.clear();
  for (const TokenId token : undecided) candidates.push_back({token, logits[static_cast<std::size_t>(token)], weights[static_cast<std::size_t>(token)]});
  return find_mass(candidates, left);
}

}  // namespace millrace::sampling
