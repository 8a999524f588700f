#pragma once

// The INT8 format of the KV cache: what all levels agree on about the scales of codes. Where they lie and how they are
// used is said in params.h. No STL, and functions are static: ISA files include this.

#include <cstdint>

namespace millrace::kernels {

/// Bytes of the scales that each vector has beside its codes: one word.
constexpr int kKvScaleBytes = 4;

/// What a code counts for, and what makes a code of a value.
struct KvScale {
  float scale;
  float to_code;
};

/// amax_bits: the largest |x| that shares the scale as the bits of a float, which order as their numbers do, NaN above
/// all. Scale amax / 127 and 127 / amax; 0 both where amax is below 2^-100; a NaN where x has one. Infinity counts as
/// 65504, as in f16: one overflow must not turn a whole row into NaN.
static inline KvScale kv_scale(std::int32_t amax_bits) {
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof(amax));
  if (amax < 0x1p-100f) return {0, 0};
  if (amax > 65504.0f) amax = 65504.0f;
  if (amax != amax) return {__builtin_nanf(""), 0};
  return {amax / 127.0f, 127.0f / amax};
}

/// The same, the scale rounded up to bf16 and its inverse.
static inline KvScale kv_short_scale(std::int32_t amax_bits) {
  KvScale out = kv_scale(amax_bits);
  if (out.to_code == 0) return out;
  std::uint32_t bits;
  __builtin_memcpy(&bits, &out.scale, sizeof(bits));
  bits = (bits + 0xFFFFu) & 0xFFFF0000u;
  __builtin_memcpy(&out.scale, &bits, sizeof(bits));
  out.to_code = 1.0f / out.scale;
  return out;
}

/// Two scales as a word: bf16 both, the first in the lower half.
static inline std::uint32_t kv_scales_word(float lower, float upper) {
  std::uint32_t words[2];
  __builtin_memcpy(&words[0], &lower, sizeof(lower));
  __builtin_memcpy(&words[1], &upper, sizeof(upper));
  return words[0] >> 16 | (words[1] & 0xFFFF0000u);
}

}  // namespace millrace::kernels
