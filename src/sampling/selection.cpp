#include "sampling/selection.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace millrace::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLowest = std::numeric_limits<float>::lowest();

/// The tokens that a cut may still be at: those with low <= logit < high. S(b), the weights of all logits of at least
/// b (or how many they are), is at least the mass for b = low and less for b = high.
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

  /// Which part of what lies in it is above the cut.
  double part_above(double mass) const { return (mass - sum_high) / (sum_low - sum_high); }

  /// A sixteenth of it around where the cut is if the mass lies evenly.
  Bracket guess(double mass) const {
    const double part = 1 - part_above(mass);
    return {at(part - 1.0 / 32), at(part + 1.0 / 32), 0, 0};
  }

  /// Where the cut is if its tokens weigh the same, by a sample of them: two logits, and between those one with the
  /// float behind it, so that a logit that many tokens share is alone in the bracket after one look. One of them
  /// narrows any bracket of more than one value, so a search that goes on with them ends.
  Bounds by_sample(std::span<const float> logits, double mass) const {
    constexpr std::size_t kLooks = 2048;
    std::array<float, kLooks> sample;
    std::size_t n = 0;
    // Steps of the golden ratio: spread over the row, whatever order it has.
    const std::size_t stride = static_cast<std::size_t>(0.6180339887 * static_cast<double>(logits.size())) | 1;
    for (std::size_t look = 0, i = 0; look < kLooks; ++look) {
      if (logits[i] >= low && logits[i] < high) sample[n++] = logits[i];
      i += stride;
      if (i >= logits.size()) i -= logits.size();
    }
    if (n == 0) return fifths();
    const auto rank = [&](double place) {  // falling
      const auto nth = sample.begin() + std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(place), 0,
                                                                   static_cast<std::ptrdiff_t>(n) - 1);
      std::nth_element(sample.begin(), nth, sample.begin() + static_cast<std::ptrdiff_t>(n), std::greater{});
      return *nth;
    };
    const double part = part_above(mass), place = part * static_cast<double>(n),
                 reach = 1 + 3 * std::sqrt(place * (1 - part));
    const float middle = rank(place);
    return {rank(place - reach), std::nextafter(middle, kInfinity), middle, rank(place + reach)};
  }
};

}  // namespace

std::span<TokenId> select_best(std::span<const float> logits, std::span<float> chunk_peaks, int n,
                               std::span<TokenId> tokens) {
  constexpr std::size_t kFew = 4096;
  const auto wanted = static_cast<std::size_t>(n), enough = std::max(4 * wanted, kFew);
  // n chunks have a logit of at least the n-th best peak, so the n best tokens are not under it.
  float bar = kLowest;
  if (wanted <= chunk_peaks.size()) {
    std::ranges::nth_element(chunk_peaks, chunk_peaks.begin() + n - 1, std::greater{});
    bar = std::max(bar, chunk_peaks[wanted - 1]);
  }
  std::size_t found = find_between(logits, bar, kInfinity, enough, tokens);
  if (found >= enough) {  // many chunks alike, or many tokens; or most of the best in few chunks
    const float peak = *std::ranges::max_element(chunk_peaks);
    Bracket bracket{bar, std::nextafter(peak, kInfinity), static_cast<double>(logits.size()), 0};
    const auto mass = static_cast<double>(n);
    while (!bracket.one_value() && bracket.sum_low - bracket.sum_high > static_cast<double>(enough)) {
      const Bounds bounds = bracket.by_sample(logits, mass);
      bracket.narrow(bounds, counts_from(logits, bounds), mass);
    }
    if (bracket.one_value()) {
      found = find_between(logits, bracket.high, kInfinity, wanted, tokens);  // fewer than wanted
      for (std::size_t i = 0; i < logits.size() && found < wanted; ++i)
        if (logits[i] == bracket.low) tokens[found++] = static_cast<TokenId>(i);  // equals: by id
    } else {
      found = find_between(logits, bracket.low, kInfinity, logits.size(), tokens);
    }
  }
  const std::span<TokenId> best = tokens.first(std::min(found, wanted));
  if (found > wanted) std::ranges::nth_element(tokens.first(found), tokens.begin() + n - 1, better_by(logits));
  if (found > wanted && wanted > kFew) {  // quicker than to sort them
    const Cut cut{logits[static_cast<std::size_t>(best.back())], best.back()};
    for (std::size_t i = 0, kept = 0; kept < wanted; ++i) {
      tokens[kept] = static_cast<TokenId>(i);
      kept += within(cut, logits[i], static_cast<TokenId>(i)) ? 1 : 0;
    }
  } else {
    std::ranges::sort(best);
  }
  return best;
}

Cut find_mass(std::span<const float> logits, std::span<const float> weights, std::span<TokenId> tokens, double mass) {
  const TokenId last = first_with_mass(weights, tokens, mass, better_by(logits)).back();
  return {logits[static_cast<std::size_t>(last)], last};
}

Estimate estimate(std::span<const float> logits, float rate, double share) {
  constexpr std::size_t kTogether = 16, kStride = 64 * kTogether;
  constexpr int kBinsPerUnit = 128, kUnits = 24, kBins = kUnits * kBinsPerUnit;
  constexpr double kBinToBin = 0.99459942348363317565;  // 2^(-1 / kBinsPerUnit); written out: the same on every machine
  Estimate out{-kInfinity, {}};
  const auto for_sample = [&](auto&& body) {
    for (std::size_t begin = 0; begin + kTogether <= logits.size(); begin += kStride)
      for (std::size_t i = begin; i < begin + kTogether; ++i) body(logits[i]);
  };
  for_sample([&](float logit) { out.peak = logit > out.peak ? logit : out.peak; });
  if (share >= 1) return out;
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

Nucleus find_nucleus(std::span<const float> logits, std::span<const float> weights, const Scale& scale, float peak,
                     double share, double total, const Bounds& near_cut, std::span<double> chunk_sums,
                     std::span<TokenId> tokens) {
  constexpr std::size_t kFew = 512;
  const double mass = share * total;
  // Weights end at a distance of 127.
  Bracket bracket{std::max(scale.reference - 128 / scale.rate, kLowest), std::nextafter(peak, kInfinity), total, 0};
  if (logits.size() > kFew && std::isfinite(near_cut[0]))
    bracket.narrow(near_cut, sums_from(logits, weights, near_cut), mass);

  double sum = 0;
  std::span<TokenId> undecided;
  const auto look = [&](const Bracket& b) {
    undecided = tokens.first(split(logits, weights, b.low, b.high, tokens, chunk_sums));
    sum = std::accumulate(chunk_sums.begin(), chunk_sums.end(), 0.0);
  };
  const auto weight_of = [&](TokenId token) -> double { return weights[static_cast<std::size_t>(token)]; };
  bool found = false;
  for (int round = 0; !found; ++round) {
    // None of the undecided has less weight than the lowest would.
    const double most =
        (bracket.sum_low - bracket.sum_high) / two_to_minus((scale.reference - bracket.low) * scale.rate);
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
      // Fifths are quick where logits lie evenly; a sample finds the one that many tokens share.
      const Bounds bounds = round % 2 == 0 ? bracket.fifths() : bracket.by_sample(logits, mass);
      bracket.narrow(bounds, sums_from(logits, weights, bounds), mass);
    }
  }

  Cut cut;
  if (bracket.one_value()) {  // equals: by id
    std::size_t last = 0;
    for (double left = mass - sum; last + 1 < undecided.size() && left > weight_of(undecided[last]); ++last)
      left -= weight_of(undecided[last]);
    cut = {bracket.low, undecided[last]};
  } else {
    cut = find_mass(logits, weights, undecided, mass - sum);
    std::ranges::sort(undecided);  // sums have one order
  }
  for (const TokenId token : undecided) {
    if (!within(cut, logits[static_cast<std::size_t>(token)], token)) continue;
    chunk_sums[static_cast<std::size_t>(token) / kChunk] += weight_of(token);
    sum += weight_of(token);
  }
  return {cut, sum};
}

}  // namespace millrace::sampling
