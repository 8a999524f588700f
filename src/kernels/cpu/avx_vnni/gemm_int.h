#pragma once

// Integer weights with vpdpbusd in 256 bits: AVX2's tiles with another product. Every function is internal to the file
// that includes it (kernels/registry.h says why).
//
// It multiplies unsigned weights with signed activations into 32 bits. Codes are unsigned as they are, table values by
// a table that is 128 higher. The accumulators start with what takes the offset back, -offset * a_sum. Scales of halves
// multiply them as floats, exactly, as at avx512.

#include "kernels/cpu/avx2/int_tiles.h"
#include "kernels/cpu/avx_vnni/dpbusd.h"

namespace millrace::kernels::MILLRACE_AVX_VNNI {
namespace {

using namespace avx2;

/// The unsigned weights of step s of the block at w: of its low elements (high = 0) or of the others.
template <IntFormat kFormat>
[[gnu::always_inline]] inline __m256i weights(int s, int high, const std::uint8_t* w) {
  constexpr IntFormat f = kFormat;
  if constexpr (f.bits == 8) return load32(w + (4 * high + s) * 32);
  const __m256i q = codes(f.bits, s, high, w);
  if constexpr (!f.table) return q;
  const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Table)));
  return _mm256_shuffle_epi8(_mm256_xor_si256(table, _mm256_set1_epi8(-128)), q);
}

struct Dpbusd {
  template <IntFormat kFormat, int MR, int NR>
  [[gnu::always_inline]] static void products(const Block<NR>& block, __m256 (&out)[MR][NR]) {
    if constexpr (kFormat.group == 32) {
      part<kFormat, 0, 2>(block, out);
    } else {  // the halves of a block have scales of their own
      part<kFormat, 0, 1>(block, out);
      part<kFormat, 1, 2>(block, out);
    }
  }

  /// Of the low elements (0) to the high ones (1): out = their sum, of halves times its scale, or += for the second
  /// part.
  template <IntFormat kFormat, int kFrom, int kTo, int MR, int NR>
  [[gnu::always_inline]] static void part(const Block<NR>& block, __m256 (&out)[MR][NR]) {
    constexpr IntFormat f = kFormat;
    // -offset for each of a pair of sums that belongs to this part
    constexpr unsigned kMinus = -unsigned_offset(f) & 0xFFFF;
    constexpr unsigned kPair = (kFrom == 0 ? kMinus : 0) | (kTo == 2 ? kMinus << 16 : 0);
    __m256i acc[MR][NR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j)
        acc[i][j] = _mm256_madd_epi16(block.sums(i), _mm256_set1_epi32(static_cast<int>(kPair)));
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      __m256i q[2][NR];
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j)
#pragma GCC unroll 2
        for (int high = kFrom; high < kTo; ++high) q[high][j] = weights<kFormat>(s, high, block.w + j * block.w_stride);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
        for (int high = kFrom; high < kTo; ++high) {
          const __m256i x = broadcast4(block.a + i * block.a_stride + 16 * high + 4 * s);
#pragma GCC unroll 8
          for (int j = 0; j < NR; ++j) acc[i][j] = dpbusd(acc[i][j], q[high][j], x);
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      __m256i scales = block.groups[j].scales;  // 16 bits each, sign-extended from the upper or the lower of a pair
      if constexpr (kTo == 1) scales = _mm256_slli_epi32(scales, 16);
      const __m256 scale = _mm256_cvtepi32_ps(_mm256_srai_epi32(scales, 16));
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m256 x = _mm256_cvtepi32_ps(acc[i][j]);
        if constexpr (kFrom == 1)
          out[i][j] = _mm256_fmadd_ps(x, scale, out[i][j]);
        else
          out[i][j] = f.group == 16 ? _mm256_mul_ps(x, scale) : x;
      }
    }
  }
};

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AVX_VNNI
