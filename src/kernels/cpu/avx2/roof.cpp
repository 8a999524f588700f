// The machine's limits with this level's instructions: the loops that no kernel can beat.

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/vec.h"

namespace millrace::kernels::avx2 {

namespace {
// Independent accumulators: latency 4, two a cycle. Every loop over them is unrolled, or they would live in memory.
constexpr int kChains = 8;

void keep(__m256i& v) { asm volatile("" : "+x"(v)); }
void keep(__m256& v) { asm volatile("" : "+x"(v)); }
}  // namespace

/// Without VNNI an INT8 product is vpmaddubsw and an addition in 16 bit; widening comes once in many and is not
/// counted.
void roof_int8(const RoofArgs& p) {
  __m256i acc[kChains], a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(1);
#pragma GCC unroll 8
  for (auto& x : acc) x = _mm256_setzero_si256();
  for (int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < kChains; ++j) {
      keep(a);  // or all chains would share one product
      acc[j] = _mm256_add_epi16(acc[j], _mm256_maddubs_epi16(a, b));
      keep(acc[j]);
    }
#pragma GCC unroll 8
  for (auto& x : acc) keep(x);
  *p.operations = static_cast<double>(p.iterations) * kChains * 32 * 2;
}

void roof_bf16(const RoofArgs& p) { *p.operations = 0; }  // no bf16 arithmetic at this level

void roof_f32(const RoofArgs& p) {
  __m256 acc[kChains], a = _mm256_set1_ps(1.0001f), b = _mm256_set1_ps(0.5f);
#pragma GCC unroll 8
  for (auto& x : acc) x = _mm256_set1_ps(1);
  for (int64_t i = 0; i < p.iterations; ++i) {
    keep(a);
#pragma GCC unroll 8
    for (int j = 0; j < kChains; ++j) {
      acc[j] = _mm256_fmadd_ps(acc[j], a, b);
      asm("" : "+x"(acc[j]));
    }
  }
#pragma GCC unroll 8
  for (auto& x : acc) keep(x);
  *p.operations = static_cast<double>(p.iterations) * kChains * 8 * 2;
}

void roof_read(const RoofArgs& p) {
  __m256i sum[4];
#pragma GCC unroll 8
  for (auto& s : sum) s = _mm256_setzero_si256();
  for (int64_t i = 0; i + 256 <= p.bytes; i += 256)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j)
      sum[j % 4] =
          _mm256_add_epi64(sum[j % 4], _mm256_load_si256(reinterpret_cast<const __m256i*>(p.data + i + 32 * j)));
#pragma GCC unroll 8
  for (auto& s : sum) keep(s);
  *p.operations = static_cast<double>(p.bytes);
}

}  // namespace millrace::kernels::avx2
