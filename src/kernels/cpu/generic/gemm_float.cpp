// Float weights: per output element one chain of fused multiply-adds over k.

#include <cmath>
#include <cstring>

#include "kernels/cpu/generic/kernels.h"
#include "tensor/half.h"

namespace millrace::kernels::generic {
namespace {

constexpr int kPanelRows = 8;

template <class T>
T load(const std::uint8_t* panel, std::int64_t index) {
  T value;
  std::memcpy(&value, panel + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// weight(panel, k, row) reads one weight, activation(r, k) one activation.
template <class Args, class Weight, class Activation>
void gemm(const Args& p, std::int64_t k_end, Weight weight, Activation activation) {
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (std::int64_t i = 0; i < p.n; ++i) {
      const std::uint8_t* panel = p.w + i / kPanelRows * p.panel_bytes;
      float f = 0;
      for (std::int64_t k = 0; k < k_end; ++k) f = std::fma(activation(r, k), weight(panel, k, i % kPanelRows), f);
      p.c[r * p.c_stride + i] = f;
    }
}

}  // namespace

void gemm_f32(const GemmFloatArgs& p) {
  gemm(
      p, p.k,
      [](const std::uint8_t* panel, std::int64_t k, std::int64_t row) {
        return load<float>(panel, k * kPanelRows + row);
      },
      [&](std::int64_t r, std::int64_t k) { return p.a[r * p.a_stride + k]; });
}

void gemm_f16(const GemmFloatArgs& p) {
  gemm(
      p, p.k,
      [](const std::uint8_t* panel, std::int64_t k, std::int64_t row) {
        return tensor::f16_to_f32(load<std::uint16_t>(panel, k * kPanelRows + row));
      },
      [&](std::int64_t r, std::int64_t k) { return p.a[r * p.a_stride + k]; });
}

void gemm_bf16(const GemmBf16Args& p) {
  gemm(
      p, (p.k + 1) / 2 * 2,  // pairs: the missing element of an odd k takes part as 0
      [](const std::uint8_t* panel, std::int64_t k, std::int64_t row) {
        return tensor::bf16_to_f32(load<std::uint16_t>(panel, (k / 2 * kPanelRows + row) * 2 + k % 2));
      },
      [&](std::int64_t r, std::int64_t k) { return k < p.k ? tensor::bf16_to_f32(p.a[r * p.a_stride + k]) : 0.0f; });
}

}  // namespace millrace::kernels::generic
