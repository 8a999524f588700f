#pragma once

// What matrix products read, written by the ops before them: f32, bf16, or q8_act.

#include "ops/op.h"

namespace millrace::ops {

/// Bytes of a value, scales and sums included.
double activation_bytes(tensor::DType type);

/// Values [first, first + n) of the activations at `out` ([max_rows, k] of `type`, counted through all rows) from f32 x. q8_act:
/// first, n and k are multiples of 32. f32: x may be its own place.
void write_activations(const kernels::KernelTable& kernels, tensor::DType type, const float* x, std::byte* out, std::int64_t max_rows, std::int64_t k,
                       std::int64_t first, std::int64_t n);

}  // namespace millrace::ops
