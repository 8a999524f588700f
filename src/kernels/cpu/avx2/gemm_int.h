#pragma once

// Integer weights on AVX2: register tiles of MR rows x NR panels. Every function is internal to the file that includes
// it (kernels/registry.h says why).
//
// Codes of up to 6 bits are unsigned, so vpmaddubsw takes them as they are, and its 16-bit pair sums can be added up
// before vpmaddwd widens them, by the group's scale if there is one. Of pairs of products 2 * most * 127 fit in 16
// bits:
//
//   4 bits   8, a whole block: 30480         2, 3 bits  4, a half, which has a scale of its own
//   5 bits   4, half a block: 31496          6 bits     2: 32004
//
// Signed weights (8 bits, tables) go as |w| against activations with w's sign: |-128| is 128 as an unsigned byte, and a
// pair's 2 * 128 * 127 = 32512 fits, but not two of them, so each is widened at once.

#include "kernels/cpu/avx2/int_tiles.h"
#include "kernels/cpu/avx2/kernels.h"

namespace millrace::kernels::avx2 {
namespace {

/// A block's group scales as vpmaddwd multiplies the sums of its low and high elements with them. Group 32: 1 each.
struct Halves {
  __m256i half[2];
};

template <IntFormat kFormat>
[[gnu::always_inline]] inline Halves halves_of(const Groups& groups) {
  if constexpr (kFormat.group == 32) return {{groups.scales, groups.scales}};
  const __m256i first = _mm256_set1_epi32(0x01000100), second = _mm256_set1_epi32(0x03020302);
  const __m256i lane = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0, 0x04040404, 0x08080808, 0x0C0C0C0C);
  return {{_mm256_shuffle_epi8(groups.scales, _mm256_add_epi8(lane, first)),
           _mm256_shuffle_epi8(groups.scales, _mm256_add_epi8(lane, second))}};
}

/// acc = dot products of one block, exact, times group scales: MR rows of `a` (stride a_stride), NR panels' data at `w`
/// (stride w_stride). Inlined, or acc would live in memory.
template <int MR, int NR>
[[gnu::always_inline]] inline void dot4(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                        const Halves (&scales)[NR], __m256i (&acc)[MR][NR]) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) {
    __m256i lo[NR], hi[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      __m256i q = load32(w + j * w_stride + s * 32);
      settle(q);
      lo[j] = _mm256_and_si256(q, low);
      hi[j] = _mm256_and_si256(_mm256_srli_epi16(q, 4), low);
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256i x = broadcast4(a + i * a_stride + 4 * s), y = broadcast4(a + i * a_stride + 16 + 4 * s);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) {
        const __m256i first = _mm256_maddubs_epi16(lo[j], x);
        acc[i][j] =
            _mm256_add_epi16(s == 0 ? first : _mm256_add_epi16(acc[i][j], first), _mm256_maddubs_epi16(hi[j], y));
        settle(acc[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) acc[i][j] = _mm256_madd_epi16(acc[i][j], scales[j].half[0]);
}

/// Codes of 2, 3, 5 and 6 bits: a half of the block after the other.
template <int kBits, int MR, int NR>
[[gnu::always_inline]] inline void dot_halves(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
                                              int64_t w_stride, const Halves (&scales)[NR], __m256i (&acc)[MR][NR]) {
  constexpr int kWiden = kBits == 6 ? 2 : 4;  // steps whose sums fit in 16 bits
#pragma GCC unroll 2
  for (int high = 0; high < 2; ++high) {
    __m256i part[MR][NR];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      __m256i q[NR];
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) q[j] = codes(kBits, s, high, w + j * w_stride);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m256i x = broadcast4(a + i * a_stride + 16 * high + 4 * s);
#pragma GCC unroll 8
        for (int j = 0; j < NR; ++j) {
          const __m256i pairs = _mm256_maddubs_epi16(q[j], x);
          part[i][j] = s % kWiden == 0 ? pairs : _mm256_add_epi16(part[i][j], pairs);
          settle(part[i][j]);
        }
      }
      if (s % kWiden != kWiden - 1) continue;
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < NR; ++j) {
          const __m256i sum = _mm256_madd_epi16(part[i][j], scales[j].half[high]);
          acc[i][j] = high == 0 && s == kWiden - 1 ? sum : _mm256_add_epi32(acc[i][j], sum);
        }
    }
  }
}

/// Signed weights: bytes, or nibbles through the table.
template <bool kTable, int MR, int NR>
[[gnu::always_inline]] inline void dot_signed(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
                                              int64_t w_stride, const Halves (&scales)[NR], __m256i (&acc)[MR][NR]) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Table)));
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s) {
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      const __m256i q = kTable ? _mm256_shuffle_epi8(table, codes(4, s % 4, s / 4, w + j * w_stride))
                               : _mm256_xor_si256(load32(w + j * w_stride + s * 32), _mm256_set1_epi8(-128));
      const __m256i magnitude = _mm256_abs_epi8(q);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m256i signed_a = _mm256_sign_epi8(broadcast4(a + i * a_stride + 4 * s), q);
        const __m256i dot = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_a), scales[j].half[0]);
        acc[i][j] = s == 0 ? dot : _mm256_add_epi32(acc[i][j], dot);
        settle(acc[i][j]);
      }
    }
  }
}

struct Maddubs {
  template <IntFormat kFormat, int MR, int NR>
  [[gnu::always_inline]] static void products(const Block<NR>& block, __m256 (&out)[MR][NR]) {
    constexpr IntFormat f = kFormat;
    __m256i acc[MR][NR];
    Halves scales[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) scales[j] = halves_of<kFormat>(block.groups[j]);
    if constexpr (f.bits == 8 || f.table)
      dot_signed<f.table, MR, NR>(block.a, block.a_stride, block.w, block.w_stride, scales, acc);
    else if constexpr (f.bits == 4)
      dot4<MR, NR>(block.a, block.a_stride, block.w, block.w_stride, scales, acc);
    else
      dot_halves<f.bits, MR, NR>(block.a, block.a_stride, block.w, block.w_stride, scales, acc);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) {
        if constexpr (f.offset != 0 && f.bits != 8) {
          const __m256i offsets = _mm256_mullo_epi16(block.groups[j].scales, _mm256_set1_epi16(f.offset));
          acc[i][j] = _mm256_sub_epi32(acc[i][j], _mm256_madd_epi16(block.sums(i), offsets));
        }
        out[i][j] = _mm256_cvtepi32_ps(acc[i][j]);
      }
  }
};

}  // namespace
}  // namespace millrace::kernels::avx2
