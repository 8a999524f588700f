#pragma once

// Sixteen floats: masked loads and stores, 16-bit element types, exp. Every function is internal to the file that
// includes it (kernels/registry.h says why).

#include <cstdint>

#include "kernels/cpu/avx512/intrinsics.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

using std::int64_t;

/// Has v computed here (roof loops).
#ifdef MILLRACE_SIMDE  // emulated vectors are no registers, and nobody times them
template <class T>
inline void keep(T&) {}
#else
template <class T>
inline void keep(T& v) {
  asm volatile("" : "+v"(v));
}
#endif

constexpr int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/// The first n lanes.
inline __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1 << n) - 1); }

/// The first n of p, the rest 0; and back.
inline __m512 load_upto(const float* p, int64_t n) {
  return n >= 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first_lanes(n), p);
}
inline void store_upto(float* p, int64_t n, __m512 v) {
  if (n >= 16) return _mm512_storeu_ps(p, v);
  _mm512_mask_storeu_ps(p, first_lanes(n), v);
}

/// The sums of a tile, MR rows and NR panels of 16 columns from c, of which n exist: 0, or what is there; and back.
template <int MR, int NR>
[[gnu::always_inline]] inline void load_tile(const float* c, int64_t c_stride, int64_t n, bool first,
                                             __m512 (&f)[MR][NR]) {
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j)
      f[i][j] = first ? _mm512_setzero_ps() : load_upto(c + i * c_stride + 16 * j, n - 16 * j);
}
template <int MR, int NR>
[[gnu::always_inline]] inline void store_tile(float* c, int64_t c_stride, int64_t n, const __m512 (&f)[MR][NR]) {
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) store_upto(c + i * c_stride + 16 * j, n - 16 * j, f[i][j]);
}

inline __m256i load16_halves(const std::uint16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline __m256i join(__m128i lower, __m128i upper) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(lower), upper, 1);
}
inline __m128i load8_halves(const std::uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

/// Element types of the KV cache and of float weights: 16 neighbours widened; the first n, the rest 0; 8 from two
/// places.
struct F32 {
  using type = float;
  static __m512 load16(const float* p) { return _mm512_loadu_ps(p); }
  static __m512 load_first(const float* p, int64_t n) { return load_upto(p, n); }
  static __m512 load_two(const float* lower, const float* upper) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(lower)), _mm256_loadu_ps(upper), 1);
  }
};
struct F16 {
  using type = std::uint16_t;
  static __m512 load16(const std::uint16_t* p) { return _mm512_cvtph_ps(load16_halves(p)); }
  static __m512 load_first(const std::uint16_t* p, int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
  }
  static __m512 load_two(const std::uint16_t* lower, const std::uint16_t* upper) {
    return _mm512_cvtph_ps(join(load8_halves(lower), load8_halves(upper)));
  }
};
struct Bf16 {
  using type = std::uint16_t;
  static __m512 widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static __m512 load16(const std::uint16_t* p) { return widen(load16_halves(p)); }
  static __m512 load_first(const std::uint16_t* p, int64_t n) {
    return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p));
  }
  static __m512 load_two(const std::uint16_t* lower, const std::uint16_t* upper) {
    return widen(join(load8_halves(lower), load8_halves(upper)));
  }
};

/// Codes of the KV cache.
struct Int8 {
  using type = std::int8_t;
  static __m512 widen(__m128i codes) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)); }
  static __m512 load16(const std::int8_t* p) { return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  /// Reads 16 bytes all the same: behind a block's codes are its scales.
  static __m512 load_first(const std::int8_t* p, int64_t n) { return _mm512_maskz_mov_ps(first_lanes(n), load16(p)); }
  static __m512 load_two(const std::int8_t* lower, const std::int8_t* upper) {
    return widen(_mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lower)),
                                    _mm_loadl_epi64(reinterpret_cast<const __m128i*>(upper))));
  }
};

/// Elements are codes, and each token has a scale.
template <class T>
constexpr bool is_scaled = false;
template <>
constexpr bool is_scaled<Int8> = true;

/// generic/math.h, operation by operation but for the last.
inline __m512 exp(__m512 x) {
  const __m512 shift = _mm512_set1_ps(0x1.8p23f);
  x = _mm512_max_ps(_mm512_set1_ps(-104.0f), _mm512_min_ps(_mm512_set1_ps(89.0f), x));
  const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(0x1.715476p+0f), shift);
  const __m512 n = _mm512_sub_ps(shifted, shift);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e400p-1f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
  __m512 p = _mm512_set1_ps(0x1.6ae6e0p-10f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.1267d8p-7f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555824p-5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555418p-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.fffffcp-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);  // rounds once, as the two products there do
}

/// Lanes i and i + 8 are added, then + 4, + 2, + 1 (generic/math.h).
inline float sum_lanes(__m512 v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float max_lanes(__m512 v) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AVX512
