#pragma once

// The INT8 format of the KV cache: bytes and the scale of a vector (the keys, or the values, of one token and head),
// the same on all levels. Where they lie and how they are used is said in params.h. No STL, and functions are static:
// ISA files include this.

#include <cstdint>

namespace millrace::kernels {

/// Bytes of the scale that each vector has beside its codes.
constexpr int kKvScaleBytes = 4;

/// What an element counts for, and what makes a code of it: scale = amax / 127, to_code = 127 / amax.
struct KvScale {
  float scale;
  float to_code;
};

/// amax_bits: the largest |x| of the vector as the bits of a float, which order as their numbers do, NaN above all.
/// Both are 0 where amax is below 2^-100, so that 127 / amax always is a number, and NaN where x has a NaN. Infinity
/// counts as 65504, as in f16: one overflow must not turn a whole row into NaN.
static inline KvScale kv_scale(std::int32_t amax_bits) {
  float amax;
  __builtin_memcpy(&amax, &amax_bits, sizeof(amax));
  if (amax < 0x1p-100f) return {0, 0};
  if (amax > 65504.0f) amax = 65504.0f;
  return {amax / 127.0f, 127.0f / amax};
}

}  // namespace millrace::kernels
