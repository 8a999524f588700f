// The machine's limits with this level's instructions: the loops that no kernel can beat.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels {
namespace MILLRACE_AVX512 {

namespace {
// Independent accumulators: latency 4 to 5, two a cycle. Every loop over them is unrolled, or they would live in
// memory.
constexpr int kChains = 12;
}  // namespace

void roof_int8(const RoofArgs& p) {
  __m512i acc[kChains];
  const __m512i a = _mm512_set1_epi32(static_cast<int>(p.iterations | 1)), b = _mm512_set1_epi32(0x01010101);
#pragma GCC unroll 12
  for (auto& x : acc) x = a;
  for (int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      acc[j] = _mm512_dpbusd_epi32(acc[j], a, b);
      keep(acc[j]);
    }
#pragma GCC unroll 12
  for (auto& x : acc) keep(x);
  *p.operations = static_cast<double>(p.iterations) * kChains * 64 * 2;
}

void roof_f32(const RoofArgs& p) {
  __m512 acc[kChains];
  const __m512 a = _mm512_set1_ps(1.0001f), b = _mm512_set1_ps(0.5f);
#pragma GCC unroll 12
  for (auto& x : acc) x = a;
  for (int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      acc[j] = _mm512_fmadd_ps(acc[j], a, b);
      keep(acc[j]);
    }
#pragma GCC unroll 12
  for (auto& x : acc) keep(x);
  *p.operations = static_cast<double>(p.iterations) * kChains * 16 * 2;
}

void roof_read(const RoofArgs& p) {
  __m512i sum[4];
#pragma GCC unroll 12
  for (auto& s : sum) s = _mm512_setzero_si512();
  for (int64_t i = 0; i + 256 <= p.bytes; i += 256)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = _mm512_add_epi64(sum[j], _mm512_load_si512(p.data + i + 64 * j));
#pragma GCC unroll 12
  for (auto& s : sum) keep(s);
  *p.operations = static_cast<double>(p.bytes);
}

}  // namespace MILLRACE_AVX512
}  // namespace millrace::kernels
