#pragma once

// Ops that treat each row of the step by itself: embedding, choice of rows, norm, sums, SwiGLU.

#include <memory>

#include "ops/op.h"

namespace millrace::ops {

/// Inputs: token ids i32 [T], table [vocab, dim]. Output: f32 [T, dim]. Ids are in range (the border checks them).
std::unique_ptr<Op> make_embed();

/// Inputs: x f32 [T, ...], row numbers i32 [S]. Output: f32 [S, ...].
std::unique_ptr<Op> make_gather_rows();

/// Inputs: x f32 [rows, ..., dim], gain f32 [dim]. Output as x.
std::unique_ptr<Op> make_rms_norm(float eps);

/// Inputs: a, b f32, same type. Output: a + b.
std::unique_ptr<Op> make_add();

/// Inputs: x f32 [rows, n], bias f32 [n]. Output: x + bias in each row.
std::unique_ptr<Op> make_add_bias();

/// Inputs: gate, up f32, same type. Output: silu(gate) * up.
std::unique_ptr<Op> make_swiglu();

}  // namespace millrace::ops
