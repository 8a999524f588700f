#include "sampling/row_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/two_to_minus.h"

namespace millrace::sampling {

extern const RowLoops generic, avx2, avx512;  // src/sampling/<level>/row_loops.cpp

namespace {

const RowLoops& loops() {
  static const RowLoops& best = *row_loops().front();
  return best;
}

}  // namespace

std::vector<const RowLoops*> row_loops() {
  std::vector<const RowLoops*> all;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) all.push_back(&avx512);
  if (__builtin_cpu_supports("avx2")) all.push_back(&avx2);
#endif
  all.push_back(&generic);
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

double kept_sum(std::span<const float> logits, std::span<const float> weights, const Kept& kept, std::span<double> chunk_sums) {
  return loops().kept_sum(logits.data(), weights.data(), logits.size(), kept, chunk_sums.data());
}

std::size_t find_between(std::span<const float> logits, float low, float high, std::span<TokenId> tokens) {
  return loops().find_between(logits.data(), logits.size(), low, high, tokens.data());
}

std::size_t split(std::span<const float> logits, std::span<const float> weights, float low, float high,
                  std::span<TokenId> tokens, std::span<double> chunk_sums) {
  return loops().split(logits.data(), weights.data(), logits.size(), low, high, tokens.data(), chunk_sums.data());
}

}  // namespace millrace::sampling
