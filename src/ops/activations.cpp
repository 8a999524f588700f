#include "ops/activations.h"

#include <algorithm>

namespace millrace::ops {

using tensor::DType;

double activation_bytes(DType type) { return type == DType::q8_act ? 1.25 : type == DType::bf16 ? 2 : 4; }

void write_activations(const kernels::KernelTable& kernels, DType type, const float* x, std::byte* out, std::int64_t max_rows, std::int64_t k,
                       std::int64_t first, std::int64_t n) {
  if (type == DType::q8_act) {
    const Q8Rows rows = q8_rows(out, max_rows, k);
    return kernels.quantize_q8({x, rows.q + first, rows.scale + first / 32, rows.sum + first / 16, 1, n});
  }
  if (type == DType::bf16) return kernels.to_bf16({x, reinterpret_cast<std::uint16_t*>(out) + first, n});
  float* to = reinterpret_cast<float*>(out) + first;
  if (to != x) std::copy_n(x, n, to);
}

}  // namespace millrace::ops
