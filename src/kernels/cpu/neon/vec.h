#pragma once

// Four floats: partial loads and stores, 16-bit element types, exp. Every function is internal to the file that
// includes it (kernels/registry.h says why).

#include <arm_neon.h>

#include <cstdint>

namespace millrace::kernels::neon {
namespace {

using std::int64_t;

constexpr int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/// The first n < 4 of p, the rest 0.
inline float32x4_t load_part(const float* p, int64_t n) {
  float part[4] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return vld1q_f32(part);
}

inline void store_part(float* p, int64_t n, float32x4_t v) {
  float part[4];
  vst1q_f32(part, v);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}

inline float32x4_t load_upto(const float* p, int64_t n) { return n >= 4 ? vld1q_f32(p) : load_part(p, n); }
inline void store_upto(float* p, int64_t n, float32x4_t v) { n >= 4 ? vst1q_f32(p, v) : store_part(p, n, v); }

/// Rounds to nearest even; NaN stays NaN. As tensor/half.h.
inline uint16x4_t round_bf16(float32x4_t x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x), upper = vshrq_n_u32(bits, 16);
  const uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd), 16);
  return vmovn_u32(vbslq_u32(vceqq_f32(x, x), rounded, vorrq_u32(upper, vdupq_n_u32(0x40))));
}

/// Element types of the KV cache and of float weights: four neighbours widened, four narrowed.
struct F32 {
  using type = float;
  static float32x4_t load4(const float* p) { return vld1q_f32(p); }
  static void store4(float* p, float32x4_t v) { vst1q_f32(p, v); }
};
struct F16 {
  using type = std::uint16_t;
  static float32x4_t load4(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  static void store4(std::uint16_t* p, float32x4_t v) {
    v = vminq_f32(v, vdupq_n_f32(65504.0f));  // NaN stays NaN
    v = vmaxq_f32(v, vdupq_n_f32(-65504.0f));
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
};
struct Bf16 {
  using type = std::uint16_t;
  static float32x4_t load4(const std::uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
  static void store4(std::uint16_t* p, float32x4_t v) { vst1_u16(p, round_bf16(v)); }
};
/// Codes of the KV cache: what is stored has been scaled to -127..127, up to a rounding.
struct Int8 {
  using type = std::int8_t;
  static float32x4_t load4(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    const int16x8_t words = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
  }
  static void store4(std::int8_t* p, float32x4_t v) {
    v = vmaxq_f32(vminq_f32(v, vdupq_n_f32(127.0f)), vdupq_n_f32(-127.0f));
    const int16x4_t words = vmovn_s32(vcvtnq_s32_f32(v));  // to nearest even
    const std::int32_t four = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(words, words))), 0);
    __builtin_memcpy(p, &four, sizeof(four));
  }
};

/// Elements are codes, and each token has a scale.
template <class T>
constexpr bool is_scaled = false;
template <>
constexpr bool is_scaled<Int8> = true;

/// The first n of p widened, the rest 0.
template <class T>
inline float32x4_t load_elements(const typename T::type* p, int64_t n) {
  if (n >= 4) return T::load4(p);
  typename T::type part[4] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return T::load4(part);
}

template <class T>
inline void store_elements(typename T::type* p, int64_t n, float32x4_t v) {
  if (n >= 4) return T::store4(p, v);
  typename T::type part[4];
  T::store4(part, v);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
}

/// generic/math.h, operation by operation.
inline float32x4_t exp(float32x4_t x) {
  const float32x4_t shift = vdupq_n_f32(0x1.8p23f), one = vdupq_n_f32(1.0f);
  x = vmaxq_f32(vminq_f32(x, vdupq_n_f32(89.0f)), vdupq_n_f32(-104.0f));  // NaN passes
  const float32x4_t shifted = vfmaq_f32(shift, x, vdupq_n_f32(0x1.715476p+0f));
  const float32x4_t n = vsubq_f32(shifted, shift);
  float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e400p-1f));
  r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
  float32x4_t p = vdupq_n_f32(0x1.6ae6e0p-10f);
  p = vfmaq_f32(vdupq_n_f32(0x1.1267d8p-7f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.555824p-5f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.555418p-3f), p, r);
  p = vfmaq_f32(vdupq_n_f32(0x1.fffffcp-2f), p, r);
  p = vfmaq_f32(one, p, r);
  p = vfmaq_f32(one, p, r);
  const int32x4_t power = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(0x4B400000));
  const int32x4_t half = vshrq_n_s32(power, 1), bias = vdupq_n_s32(127);
  const int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
  const int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(power, half), bias), 23);
  return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(first)), vreinterpretq_f32_s32(second));
}

/// The sum of 16 lanes as generic/math.h orders it: lane i + lane i + 8, then + 4, + 2, + 1.
inline float sum_lanes(float32x4_t v0, float32x4_t v1, float32x4_t v2, float32x4_t v3) {
  const float32x4_t four = vaddq_f32(vaddq_f32(v0, v2), vaddq_f32(v1, v3));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

}  // namespace
}  // namespace millrace::kernels::neon
