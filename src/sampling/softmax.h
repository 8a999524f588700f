#pragma once

// exp and sums of it over a whole vocabulary, written so that the compiler vectorises them. One fixed order of
// operations: the same logits give the same bits on every machine with IEEE floats.

#include <span>

namespace millrace::sampling {

/// e^x for x <= 0, relative error under 2^-22 down to -87; 0 from -88 on (and for -inf).
float exp_of_negative(float x);

/// Clears what no distribution can hold: NaN becomes -inf, +inf the largest float. Returns the maximum.
float clean(std::span<float> logits);

/// sum_i e^((logits[i] - max) / temperature); max >= every logit, temperature > 0. weights[i] are the summands, when
/// `weights` is not empty (then as long as logits).
double exp_sum(std::span<const float> logits, float max, float temperature, std::span<float> weights);

}  // namespace millrace::sampling
