#pragma once

// Eight floats: partial loads and stores, 16-bit element types, exp. Every function is internal to the file that
// includes it (kernels/registry.h says why).

#include <immintrin.h>

#include <cstdint>

namespace millrace::kernels::avx2 {
namespace {

using std::int64_t;

constexpr int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/// The first n < 8 of p, the rest 0. Through memory, not vmaskmov: partial vectors are rare, and its store is slow on
/// Zen.
inline __m256 load_part(const float* p, int64_t n) {
  alignas(32) float part[8] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return _mm256_load_ps(part);
}

inline void store_part(float* p, int64_t n, __m256 v) {
  alignas(32) float part[8];
  _mm256_store_ps(part, v);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}

inline __m256 load_upto(const float* p, int64_t n) { return n >= 8 ? _mm256_loadu_ps(p) : load_part(p, n); }
inline void store_upto(float* p, int64_t n, __m256 v) { n >= 8 ? _mm256_storeu_ps(p, v) : store_part(p, n, v); }

/// Rounds to nearest even, in the low half of each 32-bit lane; NaN stays NaN. As tensor/half.h.
inline __m256i round_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

/// Lanes' low halves as eight 16-bit integers.
inline __m128i pack_low_halves(__m256i v) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0x08);
  return _mm256_castsi256_si128(packed);
}

/// Element types of the KV cache and of float weights: eight neighbours widened, one value widened, eight narrowed.
struct F32 {
  using type = float;
  static __m256 load8(const float* p) { return _mm256_loadu_ps(p); }
  static void store8(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
};
struct F16 {
  using type = std::uint16_t;
  static __m256 load8(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store8(std::uint16_t* p, __m256 v) {
    v = _mm256_min_ps(_mm256_set1_ps(65504.0f), v);  // in this order NaN stays NaN
    v = _mm256_max_ps(_mm256_set1_ps(-65504.0f), v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
struct Bf16 {
  using type = std::uint16_t;
  static __m256 load8(const std::uint16_t* p) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static void store8(std::uint16_t* p, __m256 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), pack_low_halves(round_bf16(v)));
  }
};
/// Codes of the KV cache: what is stored has been scaled to -127..127, up to a rounding.
struct Int8 {
  using type = std::int8_t;
  static __m256 load8(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static void store8(std::int8_t* p, __m256 v) {
    v = _mm256_min_ps(v, _mm256_set1_ps(127.0f));  // in this order NaN ends as 127
    v = _mm256_max_ps(v, _mm256_set1_ps(-127.0f));
    const __m256i codes = _mm256_cvtps_epi32(v);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
};

/// Elements are codes, and each token has a scale.
template <class T>
constexpr bool is_scaled = false;
template <>
constexpr bool is_scaled<Int8> = true;

/// The first n of p widened, the rest 0.
template <class T>
inline __m256 load_elements(const typename T::type* p, int64_t n) {
  if (n >= 8) return T::load8(p);
  typename T::type part[8] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return T::load8(part);
}

template <class T>
inline void store_elements(typename T::type* p, int64_t n, __m256 v) {
  if (n >= 8) return T::store8(p, v);
  typename T::type part[8];
  T::store8(part, v);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}

/// generic/math.h, operation by operation.
inline __m256 exp(__m256 x) {
  const __m256 shift = _mm256_set1_ps(0x1.8p23f);
  x = _mm256_max_ps(_mm256_set1_ps(-104.0f), _mm256_min_ps(_mm256_set1_ps(89.0f), x));
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p+0f), shift);
  const __m256 n = _mm256_sub_ps(shifted, shift);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e400p-1f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
  __m256 p = _mm256_set1_ps(0x1.6ae6e0p-10f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.1267d8p-7f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555824p-5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555418p-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.fffffcp-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i power = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4B400000));
  const __m256i half = _mm256_srai_epi32(power, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(power, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

/// Lanes i and i + 4 are added, then + 2, then + 1 (generic/math.h, after its first step).
inline float sum_lanes(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float max_lanes(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline std::int32_t max_lanes(__m256i v) {
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

}  // namespace
}  // namespace millrace::kernels::avx2
