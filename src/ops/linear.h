#pragma once

// Matrix product with a packed weight: y[r, i] = sum_k x[r, k] w[i, k].

#include <memory>

#include "ops/op.h"

namespace millrace::ops {

/// Inputs: x [rows, k] in activation_type(weight), weight [n, k]. Output: f32 [rows of `out_rows`, n].
/// `out_rows` may be logits where x has outputs: the first rows only.
std::unique_ptr<Op> make_linear(Rows out_rows);

/// Inputs: x f32 [rows, k]. Output: the same values as `to`: q8_act (k a multiple of 32) or bf16. One pass, shared by
/// all linears that read x.
std::unique_ptr<Op> make_convert(tensor::DType to);

}  // namespace millrace::ops
