// Block-scaled integer weights times INT8 activations, one output element after the other.

#include <cmath>
#include <cstring>

#include "kernels/cpu/generic/kernels.h"
#include "tensor/half.h"

namespace millrace::kernels::generic {
namespace {

constexpr int kPanelRows = 8;

/// One block of one output row: weights as integers, and their scale and minimum.
struct Block {
  int q[32];
  float d, m;
};

enum class Format { q4_0, q4_1, q8_0 };

float half_at(const std::uint8_t* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return tensor::f16_to_f32(h);
}

template <Format kFormat>
Block load_block(const std::uint8_t* panel, std::int64_t blocks, std::int64_t b, int row) {
  const std::int64_t halves = blocks * kPanelRows * 2;
  const std::int64_t data = (halves * (kFormat == Format::q4_1 ? 2 : 1) + 63) / 64 * 64;
  Block out{};
  out.d = half_at(panel + (b * kPanelRows + row) * 2);
  if (kFormat == Format::q4_1) out.m = half_at(panel + halves + (b * kPanelRows + row) * 2);
  constexpr int kSteps = kFormat == Format::q8_0 ? 8 : 4;
  for (int s = 0; s < kSteps; ++s)
    for (int j = 0; j < 4; ++j) {
      const std::uint8_t byte = panel[data + ((b * kSteps + s) * kPanelRows + row) * 4 + j];
      if (kFormat == Format::q8_0) {
        out.q[4 * s + j] = static_cast<std::int8_t>(byte);
      } else {
        out.q[4 * s + j] = byte & 15;
        out.q[16 + 4 * s + j] = byte >> 4;
      }
    }
  return out;
}

template <Format kFormat>
void gemm(const GemmIntArgs& p) {
  for (std::int64_t i = 0; i < p.n; ++i) {
    const std::uint8_t* panel = p.w + i / kPanelRows * p.panel_bytes;
    for (std::int64_t r = 0; r < p.rows; ++r) p.c[r * p.c_stride + i] = 0;
    for (std::int64_t b = 0; b < p.blocks; ++b) {
      const Block w = load_block<kFormat>(panel, p.blocks, b, static_cast<int>(i % kPanelRows));
      for (std::int64_t r = 0; r < p.rows; ++r) {
        const std::int8_t* a = p.a + (r * p.blocks + b) * 32;
        const float a_scale = p.a_scale[r * p.blocks + b];
        const std::int32_t a_sum = p.a_sum[r * p.blocks + b];
        std::int32_t dot = 0;
        for (int j = 0; j < 32; ++j) dot += w.q[j] * a[j];
        if (kFormat == Format::q4_0) dot -= 8 * a_sum;
        float& c = p.c[r * p.c_stride + i];
        c = std::fma(static_cast<float>(dot) * a_scale, w.d, c);
        if (kFormat == Format::q4_1) c = std::fma(static_cast<float>(a_sum) * a_scale, w.m, c);
      }
    }
  }
}

}  // namespace

void gemm_q4_0(const GemmIntArgs& p) { gemm<Format::q4_0>(p); }
void gemm_q4_1(const GemmIntArgs& p) { gemm<Format::q4_1>(p); }
void gemm_q8_0(const GemmIntArgs& p) { gemm<Format::q8_0>(p); }

}  // namespace millrace::kernels::generic
