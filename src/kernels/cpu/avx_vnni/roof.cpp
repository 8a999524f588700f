// The limit of vpdpbusd: the loop that no kernel can beat. The other roofs stay AVX2's.

#include "kernels/cpu/avx_vnni/dpbusd.h"

namespace millrace::kernels::MILLRACE_AVX_VNNI {

void roof_int8(const RoofArgs& p) {
  constexpr int kChains = 12;  // independent accumulators: latency 4 to 5, two a cycle
  __m256i acc[kChains];
  const __m256i a = _mm256_set1_epi32(static_cast<int>(p.iterations | 1)), b = _mm256_set1_epi8(1);
#pragma GCC unroll 12
  for (auto& x : acc) x = a;
  for (std::int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      acc[j] = dpbusd(acc[j], a, b);
      asm volatile("" : "+x"(acc[j]));
    }
  *p.operations = static_cast<double>(p.iterations) * kChains * 32 * 2;
}

}  // namespace millrace::kernels::MILLRACE_AVX_VNNI
