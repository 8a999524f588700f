// The machine's limits with this level's instructions: the loops that no kernel can beat.

#include "kernels/cpu/neon/kernels.h"
#include "kernels/cpu/neon/vec.h"

namespace millrace::kernels::neon {

namespace {
// Independent accumulators: enough for a latency of 4 and four a cycle. Every loop over them is unrolled, or they would
// live in memory.
constexpr int kChains = 16;

template <class Vector>
void keep(Vector& v) {
  asm volatile("" : "+w"(v));
}
}  // namespace

void roof_int8(const RoofArgs& p) {
  int32x4_t acc[kChains];
  const int8x16_t a = vdupq_n_s8(1), b = vdupq_n_s8(1);
#pragma GCC unroll 16
  for (auto& x : acc) x = vdupq_n_s32(0);
  for (int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) {
      acc[j] = vdotq_s32(acc[j], a, b);
      keep(acc[j]);
    }
  *p.operations = static_cast<double>(p.iterations) * kChains * 16 * 2;
}

void roof_f32(const RoofArgs& p) {
  float32x4_t acc[kChains];
  const float32x4_t a = vdupq_n_f32(1.0001f), b = vdupq_n_f32(0.5f);
#pragma GCC unroll 16
  for (auto& x : acc) x = a;
  for (int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) {
      acc[j] = vfmaq_f32(acc[j], a, b);
      keep(acc[j]);
    }
  *p.operations = static_cast<double>(p.iterations) * kChains * 4 * 2;
}

void roof_read(const RoofArgs& p) {
  uint64x2_t sum[4];
#pragma GCC unroll 4
  for (auto& s : sum) s = vdupq_n_u64(0);
  for (int64_t i = 0; i + 128 <= p.bytes; i += 128)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sum[j % 4] = vaddq_u64(sum[j % 4], vreinterpretq_u64_u8(vld1q_u8(p.data + i + 16 * j)));
#pragma GCC unroll 4
  for (auto& s : sum) keep(s);
  *p.operations = static_cast<double>(p.bytes);
}

}  // namespace millrace::kernels::neon
