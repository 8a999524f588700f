#include "sampling/row_loops.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "sampling/two_to_minus.h"

namespace millrace::sampling {

extern const RowLoops generic, avx2, avx512;  // src/sampling/<level>/row_loops.cpp

namespace {

constexpr const RowLoops* kLevels[] = {&avx512, &avx2, &generic};  // the widest first

bool runs(const RowLoops* level) {
#if defined(__x86_64__)
  if (level == &avx512) return __builtin_cpu_supports("avx512f");
  if (level == &avx2) return __builtin_cpu_supports("avx2");
#endif
  return level == &generic;
}

const RowLoops& loops() {
  static const RowLoops& best = **std::ranges::find_if(kLevels, runs);
  return best;
}

}  // namespace

std::vector<const RowLoops*> row_loops() {
  std::vector<const RowLoops*> all;
  std::ranges::copy_if(kLevels, std::back_inserter(all), runs);
  return all;
}

float two_to_minus(float y) {
  y = y < kMostBits ? y : kMostBits;
  two_to_minus<float, std::int32_t>(y);
  return y;
}

float rate_of(float temperature) { return std::min(1.44269504f / temperature, std::numeric_limits<float>::max()); }

Kept::Kept(float logit, TokenId last_token, float weight)
    : least_logit(logit), more(std::nextafter(logit, std::numeric_limits<float>::infinity())), last(last_token), least_weight(weight) {}

Peak find_peak(std::span<const float> logits, std::span<float> chunk_peaks) {
  Peak peak;
  loops().find_peak(logits.data(), logits.size(), peak, chunk_peaks.data());
  return peak;
}

double exp_sum(std::span<const float> logits, float reference, float rate) {
  return loops().exp_sum(logits.data(), logits.size(), reference, rate);
}

Weighed weigh(std::span<const float> logits, const Scale& scale, float bound, std::span<float> weights,
              std::span<double> chunk_sums, std::span<float> chunk_peaks) {
  Weighed out;
  loops().weigh(logits.data(), logits.size(), scale, bound, weights.data(), chunk_sums.data(), chunk_peaks.data(), out);
  return out;
}

BoundSums sums_from(std::span<const float> logits, std::span<const float> weights, const Bounds& bounds) {
  BoundSums sums;
  loops().sums_from(logits.data(), weights.data(), logits.size(), bounds.data(), sums.data());
  return sums;
}

BoundSums counts_from(std::span<const float> logits, const Bounds& bounds) {
  BoundSums counts;
  loops().counts_from(logits.data(), logits.size(), bounds.data(), counts.data());
  return counts;
}

double kept_sum(std::span<const float> logits, std::span<const float> weights, const Kept& kept, std::span<double> chunk_sums) {
  return loops().kept_sum(logits.data(), weights.data(), logits.size(), kept, chunk_sums.data());
}

std::size_t find_between(std::span<const float> logits, float low, float high, std::size_t enough, std::span<TokenId> tokens) {
  return loops().find_between(logits.data(), logits.size(), low, high, enough, tokens.data());
}

std::size_t split(std::span<const float> logits, std::span<const float> weights, float low, float high,
                  std::span<TokenId> tokens, std::span<double> chunk_sums) {
  return loops().split(logits.data(), weights.data(), logits.size(), low, high, tokens.data(), chunk_sums.data());
}

}  // namespace millrace::sampling
