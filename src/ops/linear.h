#pragma once

// Matrix product with a packed weight: y[r, i] = sum_k x[r, k] w[i, k].

#include <memory>

#include "ops/op.h"

namespace millrace::ops {

/// Inputs: x [rows, k] in activation_type(weight), weight [n, k]. Output: f32 [rows of `out_rows`, n].
/// `out_rows` may be logits where x has outputs: the first rows only.
std::unique_ptr<Op> make_linear(Rows out_rows);

/// Inputs: x [rows, k], weights gate and up [n, k] of one activation_type, which x has. Output: [rows, n], silu(x gate) *
/// (x up) as `to`: f32, bf16 or q8_act (n a multiple of 32). The same bits as linear, swiglu and convert one after the
/// other, and the products are never in memory.
std::unique_ptr<Op> make_gated_linear(tensor::DType to);

/// Inputs: x f32 [rows, k]. Output: the same values as `to`: q8_act (k a multiple of 32) or bf16. One pass, shared by
/// all linears that read x.
std::unique_ptr<Op> make_convert(tensor::DType to);

}  // namespace millrace::ops
