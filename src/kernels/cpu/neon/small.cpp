// Everything between the matrix products that the compiler cannot vectorise by itself. Bits as in generic/small.cpp.

#include "kernels/cpu/neon/kernels.h"
#include "kernels/cpu/neon/vec.h"

namespace millrace::kernels::neon {
namespace {

void norm_row(const float* x, const float* gain, float* out, int64_t dim, float eps) {
  float32x4_t sum[8];  // 32 lanes
#pragma GCC unroll 8
  for (auto& s : sum) s = vdupq_n_f32(0);
  int64_t i = 0;
  for (; i + 32 <= dim; i += 32)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const float32x4_t v = vld1q_f32(x + i + 4 * j);
      sum[j] = vfmaq_f32(sum[j], v, v);
    }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {  // lanes past the end add +0, which changes no sum of squares
    if (i + 4 * j >= dim) break;
    const float32x4_t v = load_upto(x + i + 4 * j, dim - i - 4 * j);
    sum[j] = vfmaq_f32(sum[j], v, v);
  }
  const float total = sum_lanes(vaddq_f32(sum[0], sum[4]), vaddq_f32(sum[1], sum[5]), vaddq_f32(sum[2], sum[6]),
                                vaddq_f32(sum[3], sum[7]));
  const float scale = 1.0f / __builtin_sqrtf(total / static_cast<float>(dim) + eps);
  for (i = 0; i + 4 <= dim; i += 4)
    vst1q_f32(out + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), scale), vld1q_f32(gain + i)));
  for (; i < dim; ++i) out[i] = x[i] * scale * gain[i];
}

/// x * inverse rounded to nearest even, within +-127; NaN becomes 127.
int32x4_t round_q8(float32x4_t x, float inverse) {
  const float32x4_t v = vminnmq_f32(vmulq_n_f32(x, inverse), vdupq_n_f32(127.0f));
  return vcvtnq_s32_f32(vmaxq_f32(v, vdupq_n_f32(-127.0f)));
}

}  // namespace

void rms_norm_f32(const RmsNormArgs& p) {
  for (int64_t r = 0; r < p.rows; ++r) norm_row(p.x + r * p.dim, p.gain, p.out + r * p.dim, p.dim, p.eps);
}

void quantize_q8(const QuantizeArgs& p) {
  for (int64_t b = 0; b < p.rows * (p.k / 32); ++b) {
    float32x4_t x[8];
    float32x4_t most = vdupq_n_f32(0);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      x[i] = vld1q_f32(p.x + b * 32 + 4 * i);
      most = vmaxnmq_f32(most, vabsq_f32(x[i]));  // the other operand survives a NaN
    }
    const float amax = vmaxnmvq_f32(most), inverse = amax > 0 ? 127.0f / amax : 0.0f;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const float32x4_t* v = x + 4 * half;
      const int16x8_t low = vcombine_s16(vmovn_s32(round_q8(v[0], inverse)), vmovn_s32(round_q8(v[1], inverse)));
      const int16x8_t high = vcombine_s16(vmovn_s32(round_q8(v[2], inverse)), vmovn_s32(round_q8(v[3], inverse)));
      const int8x16_t q = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
      vst1q_s8(p.q + b * 32 + 16 * half, q);
      p.sum[b * 2 + half] = vaddlvq_s8(q);
    }
    p.scale[b] = activation_scale(amax);
  }
}

void swiglu_f32(const SwiGluArgs& p) {
  const float32x4_t lowest = vdupq_n_f32(-0x1.fffffep127f), one = vdupq_n_f32(1.0f);
  for (int64_t i = 0; i < p.n; i += 4) {
    const float32x4_t gate = vmaxq_f32(lowest, load_upto(p.gate + i, p.n - i));
    const float32x4_t silu = vdivq_f32(gate, vaddq_f32(one, exp(vnegq_f32(gate))));
    store_upto(p.out + i, p.n - i, vmulq_f32(silu, load_upto(p.up + i, p.n - i)));
  }
}

}  // namespace millrace::kernels::neon
