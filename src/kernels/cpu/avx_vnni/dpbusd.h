#pragma once

// The one instruction of this level, or with MILLRACE_EMULATED the same in AVX2, so that tests run its code on any
// machine.

#include <immintrin.h>

#include "kernels/cpu/avx_vnni/kernels.h"

namespace millrace::kernels::MILLRACE_AVX_VNNI {
namespace {

/// sum + the products of four neighbouring bytes, unsigned with signed, exact.
#ifdef MILLRACE_EMULATED
inline __m256i dpbusd(__m256i sum, __m256i u, __m256i s) {  // even and odd bytes apart, widened to 16 bits
  const __m256i even =
      _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
  return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
#else
inline __m256i dpbusd(__m256i sum, __m256i u, __m256i s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
#endif

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AVX_VNNI
