#include "sampling/selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

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

  /// Inside, even where few floats are.
  float at(double part) const {
    const float x = static_cast<float>(low + part * (static_cast<double>(high) - low));
    return std::clamp(x, std::nextafter(low, kInfinity), std::nextafter(high, -kInfinity));
  }
  Bounds fifths() const { return {at(0.2), at(0.4), at(0.6), at(0.8)}; }

  /// A sixteenth of it around where the cut is if the mass lies evenly.
  Bracket guess(double mass) const {
    const double part = (sum_low - mass) / (sum_low - sum_high);
    return {at(part - 1.0 / 32), at(part + 1.0 / 32), 0, 0};
  }
};

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

double sum_before(std::span<const float> logits, std::span<const float> weights, TokenId token) {
  const float logit = logits[static_cast<std::size_t>(token)], more = std::nextafter(logit, kInfinity);
  const BoundSums sums = sums_from(logits, weights, {more, logit, logit, logit});
  double sum = sums[0];
  // Others of this logit have its weight, too; half of it is more than sums differ by rounding, unless it is next to none.
  if (sums[1] - sum > 1.5 * weights[static_cast<std::size_t>(token)])
    for (std::size_t i = 0; i < static_cast<std::size_t>(token); ++i)
      if (logits[i] == logit) sum += weights[i];
  return sum;
}

Estimate estimate(std::span<const float> logits, float rate, double share) {
  constexpr std::size_t kTogether = 16, kStride = 64 * kTogether;
  constexpr int kBinsPerUnit = 128, kUnits = 24, kBins = kUnits * kBinsPerUnit;
  constexpr double kBinToBin = 0.99459942348363317565;  // 2^(-1/128)
  Estimate out{-kInfinity, {}};
  const auto for_sample = [&](auto&& body) {
    for (std::size_t begin = 0; begin + kTogether <= logits.size(); begin += kStride)
      for (std::size_t i = begin; i < begin + kTogether; ++i) body(logits[i]);
  };
  for_sample([&](float logit) { out.peak = logit > out.peak ? logit : out.peak; });
  int counts[kBins] = {}, n = 0;
  for_sample([&](float logit) {
    const float distance = (out.peak - logit) * rate;
    if (distance < kUnits) ++counts[static_cast<int>(distance * kBinsPerUnit)];
    ++n;
  });
  double total = 0, weight = 1;
  for (int bin = 0; bin < kBins; ++bin, weight *= kBinToBin) total += counts[bin] * weight;
  const double deviation = std::sqrt(share * (1 - share) / n);  // of equal weights
  const double shares[kBounds] = {share - 3 * deviation, share - deviation, share + deviation, share + 3 * deviation};
  double sum = 0;
  weight = 1;
  int bin = 0;
  for (std::size_t b = 0; b < kBounds; ++b) {
    for (; bin < kBins && sum < shares[b] * total; ++bin, weight *= kBinToBin) sum += counts[bin] * weight;
    out.near_cut[b] = out.peak - static_cast<float>(bin) / kBinsPerUnit / rate;
  }
  return out;
}

Nucleus find_nucleus(std::span<const float> logits, std::span<const float> weights, const Scale& scale, float peak, double share,
                     double total, const Bounds& near_cut, std::span<double> chunk_sums, std::span<TokenId> tokens,
                     std::vector<Candidate>& candidates) {
  constexpr std::size_t kFew = 512;
  const double mass = share * total;
  // Weights end at a distance of 127.
  Bracket bracket{std::max(scale.reference - 128 / scale.rate, -std::numeric_limits<float>::max()), std::nextafter(peak, kInfinity), total, 0};
  if (logits.size() > kFew) bracket.narrow(near_cut, sums_from(logits, weights, near_cut), mass);

  double sum = 0;
  std::span<const TokenId> undecided;
  const auto look = [&](const Bracket& b) {
    undecided = tokens.first(split(logits, weights, b.low, b.high, tokens, chunk_sums));
    sum = std::accumulate(chunk_sums.begin(), chunk_sums.end(), 0.0);
  };
  const auto weight_of = [&](TokenId token) -> double { return weights[static_cast<std::size_t>(token)]; };
  for (bool found = false; !found;) {
    // None of the undecided has less weight than the lowest would.
    const double most = (bracket.sum_low - bracket.sum_high) / two_to_minus((scale.reference - bracket.low) * scale.rate);
    if (bracket.one_value() || logits.size() <= kFew || most <= kFew) {
      look(bracket);
      break;
    }
    if (most <= 16 * kFew) {
      const Bracket guess = bracket.guess(mass);
      look(guess);
      double with_undecided = sum;
      for (const TokenId token : undecided) with_undecided += weight_of(token);
      found = sum < mass && mass <= with_undecided;
    }
    if (!found) {
      const Bounds fifths = bracket.fifths();
      bracket.narrow(fifths, sums_from(logits, weights, fifths), mass);
    }
  }

  Cut cut;
  if (bracket.one_value()) {  // equals: by id
    std::size_t last = 0;
    for (double left = mass - sum; last + 1 < undecided.size() && left > weight_of(undecided[last]); ++last) left -= weight_of(undecided[last]);
    cut = {bracket.low, undecided[last]};
  } else {
    candidates.clear();
    for (const TokenId token : undecided) candidates.push_back({token, logits[static_cast<std::size_t>(token)], weights[static_cast<std::size_t>(token)]});
    cut = find_mass(candidates, mass - sum);
  }
  for (const TokenId token : undecided) {
    if (!within(cut, logits[static_cast<std::size_t>(token)], token)) continue;
    chunk_sums[static_cast<std::size_t>(token) / kChunk] += weight_of(token);
    sum += weight_of(token);
  }
  return {cut, sum};
}

}  // namespace millrace::sampling
