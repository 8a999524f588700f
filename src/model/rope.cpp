#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace millrace::model {
namespace {

/// Low frequencies are stretched by `factor`, high ones stay, those between are mixed.
double scale_llama3(double frequency, const RopeConfig& r) {
  const double turns = r.original_context * frequency / (2 * std::numbers::pi);  // over the original context
  if (turns < r.low_freq_factor) return frequency / r.factor;
  if (turns > r.high_freq_factor) return frequency;
  const double smooth = (turns - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
  return (1 - smooth) * frequency / r.factor + smooth * frequency;
}

/// The dimension whose wave turns `turns` times over the original context.
double yarn_dimension(double turns, const RopeConfig& r) {
  return r.dims * std::log(r.original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(r.theta));
}

double scale_yarn(double frequency, int i, const RopeConfig& r) {
  const double low = std::max(std::floor(yarn_dimension(r.beta_fast, r)), 0.0);
  double high = std::min(std::ceil(yarn_dimension(r.beta_slow, r)), r.dims - 1.0);
  if (low == high) high += 0.001;  // as published: no division by zero
  const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
  return frequency / r.factor * ramp + frequency * (1 - ramp);
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeConfig& rope, std::span<const float> factors) {
  RopeFrequencies out;
  for (int i = 0; i < rope.dims / 2; ++i) {
    double f = std::pow(rope.theta, -2.0 * i / rope.dims);
    switch (rope.scaling) {
      case RopeScaling::none: break;
      case RopeScaling::linear: f /= rope.factor; break;
      case RopeScaling::llama3: f = scale_llama3(f, rope); break;
      case RopeScaling::yarn: f = scale_yarn(f, i, rope); break;
    }
    if (!factors.empty()) f /= static_cast<double>(factors[static_cast<std::size_t>(i)]);
    out.inverse.push_back(f);
  }
  if (rope.scaling == RopeScaling::yarn)
    out.attention_factor = rope.attention_factor > 0 ? rope.attention_factor : rope.factor <= 1 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0;
  return out;
}

}  // namespace millrace::model
