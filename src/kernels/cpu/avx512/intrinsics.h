#pragma once

// The AVX-512 intrinsics: the compiler's, or, with MILLRACE_SIMDE, SIMDe's emulation in AVX2, so that the differential
// tests run this level's code on any machine. What SIMDe 0.7.4 lacks, or makes too large to compile, is filled in below
// in halves of 256 bits.

#include <immintrin.h>

#ifdef MILLRACE_SIMDE

#include <simde/x86/avx512.h>

namespace millrace::kernels {
namespace {

inline __m256 upper_half(simde__m512 v) {
  simde__m256 halves[2];
  __builtin_memcpy(halves, &v, sizeof(v));
  return halves[1];
}
inline __m256 lower_half(simde__m512 v) { return _mm512_castps512_ps256(v); }
inline simde__m512 both(__m256 lower, __m256 upper) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(lower), upper, 1);
}
inline simde__m512i both_int(__m256i lower, __m256i upper) {
  return _mm512_castps_si512(both(_mm256_castsi256_ps(lower), _mm256_castsi256_ps(upper)));
}
inline __m256i lower_int(simde__m512i v) { return _mm256_castps_si256(lower_half(_mm512_castsi512_ps(v))); }
inline __m256i upper_int(simde__m512i v) { return _mm256_castps_si256(upper_half(_mm512_castsi512_ps(v))); }

/// Exact, unlike vpmaddubsw: even and odd bytes apart, widened to 16 bits. Not inlined: a tile has a hundred of them.
[[maybe_unused, gnu::noinline]] simde__m512i emulated_dpbusd_epi32(simde__m512i sum, simde__m512i u, simde__m512i s) {
  const auto half = [](__m256i acc, __m256i a, __m256i b) {
    const __m256i even =
        _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
    return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
  };
  return both_int(half(lower_int(sum), lower_int(u), lower_int(s)), half(upper_int(sum), upper_int(u), upper_int(s)));
}
inline simde__m512 emulated_cvtepi32_ps(simde__m512i v) {
  return both(_mm256_cvtepi32_ps(lower_int(v)), _mm256_cvtepi32_ps(upper_int(v)));
}
inline simde__m512i emulated_cvtps_epi32(simde__m512 v) {
  return both_int(_mm256_cvtps_epi32(lower_half(v)), _mm256_cvtps_epi32(upper_half(v)));
}
/// SIMDe's flushes subnormal numbers. In two factors: one exponent does not hold all that n may be.
inline simde__m512 emulated_scalef_ps(simde__m512 v, simde__m512 n) {
  const auto half = [](__m256 x, __m256i power) {
    const auto two_to = [](__m256i e) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    const __m256i first = _mm256_srai_epi32(power, 1);
    return _mm256_mul_ps(_mm256_mul_ps(x, two_to(first)), two_to(_mm256_sub_epi32(power, first)));
  };
  const simde__m512i power = emulated_cvtps_epi32(n);
  return both(half(lower_half(v), lower_int(power)), half(upper_half(v), upper_int(power)));
}
inline simde__m512 emulated_cvtph_ps(__m256i v) {
  return both(_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}
inline simde__m512i emulated_cvtepu16_epi32(__m256i v) {
  return both_int(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                  _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}
inline simde__m512i emulated_srai_epi32(simde__m512i v, int count) {
  return both_int(_mm256_srai_epi32(lower_int(v), count), _mm256_srai_epi32(upper_int(v), count));
}
inline simde__m512i emulated_madd_epi16(simde__m512i a, simde__m512i b) {
  return both_int(_mm256_madd_epi16(lower_int(a), lower_int(b)), _mm256_madd_epi16(upper_int(a), upper_int(b)));
}
inline simde__m512i emulated_cvtepi8_epi16(__m256i v) {
  return both_int(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)),
                  _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)));
}
inline simde__m512i emulated_cvtepi8_epi32(__m128i v) {
  return both_int(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}
inline simde__m512i emulated_shuffle_epi8(simde__m512i a, simde__m512i b) {
  return both_int(_mm256_shuffle_epi8(lower_int(a), lower_int(b)), _mm256_shuffle_epi8(upper_int(a), upper_int(b)));
}
inline simde__m512i emulated_slli_epi16(simde__m512i v, unsigned count) {
  return both_int(_mm256_slli_epi16(lower_int(v), static_cast<int>(count)),
                  _mm256_slli_epi16(upper_int(v), static_cast<int>(count)));
}
inline simde__m512i emulated_srli_epi16(simde__m512i v, unsigned count) {
  return both_int(_mm256_srli_epi16(lower_int(v), static_cast<int>(count)),
                  _mm256_srli_epi16(upper_int(v), static_cast<int>(count)));
}
inline simde__m512i emulated_slli_epi32(simde__m512i v, unsigned count) {
  return both_int(_mm256_slli_epi32(lower_int(v), static_cast<int>(count)),
                  _mm256_slli_epi32(upper_int(v), static_cast<int>(count)));
}
inline simde__m512 emulated_maskz_loadu_ps(__mmask16 mask, const float* p) {
  float out[16] = {};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) out[i] = p[i];
  return _mm512_loadu_ps(out);
}
inline void emulated_mask_storeu_ps(float* p, __mmask16 mask, simde__m512 v) {
  float in[16];
  _mm512_storeu_ps(in, v);
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) p[i] = in[i];
}
inline __m256i emulated_maskz_loadu_epi16(__mmask16 mask, const void* p) {
  short out[16] = {};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) __builtin_memcpy(out + i, static_cast<const char*>(p) + 2 * i, 2);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(out));
}

}  // namespace
}  // namespace millrace::kernels

// Newer SIMDe has some of these itself.
#undef _mm512_dpbusd_epi32
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtph_ps
#undef _mm512_scalef_ps
#define _mm512_scalef_ps emulated_scalef_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_srai_epi32
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm256_maskz_loadu_epi16
#undef _mm512_extractf32x8_ps
#define _mm512_dpbusd_epi32 emulated_dpbusd_epi32
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 emulated_madd_epi16
#undef _mm512_cvtepi8_epi16
#define _mm512_cvtepi8_epi16 emulated_cvtepi8_epi16
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#undef _mm512_shuffle_epi8
#define _mm512_shuffle_epi8 emulated_shuffle_epi8
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 emulated_slli_epi16
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 emulated_srli_epi16
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 emulated_slli_epi32
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_cvtps_epi32 emulated_cvtps_epi32
#define _mm512_cvtph_ps emulated_cvtph_ps
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_srai_epi32 emulated_srai_epi32
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm256_maskz_loadu_epi16 emulated_maskz_loadu_epi16
#define _mm512_extractf32x8_ps(v, half) ((half) ? upper_half(v) : lower_half(v))

#endif
