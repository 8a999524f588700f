#include "sampling/softmax.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace millrace::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 16;  // four SSE, two AVX2 or one AVX-512 register

/// e^-y for y >= 0: 2^n * e^r with -y = n ln 2 + r, |r| <= ln(2) / 2; e^r by its Taylor series up to r^7 (the rest is
/// under 5e-9).
inline float exp_minus(float y) {
  // As integers, whose order is that of positive floats: a float comparison would keep the loop from being vectorised.
  // At 88, n is -127, and 2^n below is made of zero bits.
  const float clamped =
      -std::bit_cast<float>(std::min(std::bit_cast<std::int32_t>(y), std::bit_cast<std::int32_t>(88.0f)));
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  // ln 2 in two parts: n times the first is exact.
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  return series * std::bit_cast<float>((exponent + 127) << 23);
}

}  // namespace

float exp_of_negative(float x) { return exp_minus(0.0f - x); }

float clean(std::span<float> logits) {
  float best[kLanes];
  std::fill(best, best + kLanes, -kInfinity);
  const auto one = [](float& logit, float& most) {
    const float number = logit == logit ? logit : -kInfinity;
    logit = number > std::numeric_limits<float>::max() ? std::numeric_limits<float>::max() : number;
    most = logit > most ? logit : most;
  };
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) one(logits[i + lane], best[lane]);
  for (; i < logits.size(); ++i) one(logits[i], best[0]);
  return *std::max_element(best, best + kLanes);
}

double exp_sum(std::span<const float> logits, float max, float temperature, std::span<float> weights) {
  // Floats over 64 additions per lane, then doubles: the error stays near that of one float, at a float's speed.
  constexpr std::size_t kChunk = kLanes * 64;
  float buffer[kChunk];
  double total = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kChunk) {
    const std::size_t n = std::min(kChunk, logits.size() - begin);
    const float* in = logits.data() + begin;
    float* summands = weights.empty() ? buffer : weights.data() + begin;
    for (std::size_t i = 0; i < n; ++i) summands[i] = exp_minus((max - in[i]) / temperature);
    float sums[kLanes] = {};
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += summands[i + lane];
    for (; i < n; ++i) sums[0] += summands[i];
    for (const float sum : sums) total += sum;
  }
  return total;
}

}  // namespace millrace::sampling
