#pragma once

// Rotary position embedding (Su et al. 2021) in two ops: the angles of a step's positions, once a step; the rotation of
// q and of k with them, once a layer each.

#include <memory>
#include <vector>

#include "ops/op.h"

namespace millrace::ops {

/// Input: positions i32 [T]. Outputs: cos and sin f32 [T, rot/2] of position * inverse_frequency[i], both times
/// `attention_factor`. Angles in double, so that position 100,000 is as exact as position 1.
std::unique_ptr<Op> make_rope_angles(std::vector<double> inverse_frequencies, double attention_factor);

/// Inputs: x f32 [T, heads, head_dim], cos, sin f32 [T, rot/2]. Output: x rotated (kernels/params.h, RopeArgs).
std::unique_ptr<Op> make_rope();

}  // namespace millrace::ops
