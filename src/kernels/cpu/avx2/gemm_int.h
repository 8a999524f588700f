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

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/vec.h"

namespace millrace::kernels::avx2 {
namespace {

inline __m256i broadcast4(const void* p) {
  return _mm256_castps_si256(_mm256_broadcast_ss(static_cast<const float*>(p)));
}

/// Has v computed here. Left alone, GCC 12 delays a block's additions to its end and spills every product until then:
/// half the speed.
[[gnu::always_inline]] inline void settle(__m256i& v) { asm("" : "+x"(v)); }

inline __m256i load32(const std::uint8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }

/// Every byte's bits moved up by `by`, or down. They cross bytes: the caller masks.
[[gnu::always_inline]] inline __m256i move_bits(__m256i v, int by) {
  return by > 0 ? _mm256_slli_epi16(v, by) : by < 0 ? _mm256_srli_epi16(v, -by) : v;
}

/// The codes of step s of the block at w: of its low elements (high = 0) or of the others.
[[gnu::always_inline]] inline __m256i codes(int bits, int s, int high, const std::uint8_t* w) {
  __m256i q = _mm256_setzero_si256();
  if (bits >= 4) q = _mm256_and_si256(move_bits(load32(w + s * 32), -4 * high), _mm256_set1_epi8(15));
  if (bits == 6 || bits < 4) {
    const int first = bits == 6 ? 4 : 0;  // plane T begins there, and so do its bits of a code
    const __m256i t = move_bits(load32(w + (first + s / 2) * 32), first - (s % 2 * 4 + high * 2));
    q = _mm256_or_si256(q, _mm256_and_si256(t, _mm256_set1_epi8(static_cast<char>(3 << first))));
  }
  if (bits % 2 == 1) {
    const __m256i o = move_bits(load32(w + (bits - 1) * 32), bits - 1 - (high * 4 + s));
    q = _mm256_or_si256(q, _mm256_and_si256(o, _mm256_set1_epi8(static_cast<char>(1 << (bits - 1)))));
  }
  return q;
}

/// Group 16: one block's group scales and minimums of the eight rows of a panel, 16 bits each. `half`: as vpmaddwd
/// multiplies the sums of its low and high elements with them. `scales`, `mins`: the two of a row side by side, as a_sum
/// has its sums. Group 32: 1 each.
struct Groups {
  __m256i half[2], scales, mins;
};

template <IntFormat kFormat>
[[gnu::always_inline]] inline Groups load_groups(const std::uint8_t* scales, int64_t b) {
  constexpr IntFormat f = kFormat;
  Groups out;
  if constexpr (f.group == 32) {
    out.half[0] = out.half[1] = out.scales = out.mins = _mm256_set1_epi16(1);
  } else {
    __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + b * 16));
    if constexpr (shares_scale_byte(f)) {
      const __m128i low = _mm_set1_epi8(15);
      out.mins = _mm256_cvtepi8_epi16(_mm_and_si128(_mm_srli_epi16(v, 4), low));
      v = _mm_and_si128(v, low);
    }
    out.scales = _mm256_cvtepi8_epi16(v);
    const __m256i first = _mm256_set1_epi32(0x01000100), second = _mm256_set1_epi32(0x03020302);
    const __m256i lane =
        _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0, 0x04040404, 0x08080808, 0x0C0C0C0C);
    out.half[0] = _mm256_shuffle_epi8(out.scales, _mm256_add_epi8(lane, first));
    out.half[1] = _mm256_shuffle_epi8(out.scales, _mm256_add_epi8(lane, second));
  }
  return out;
}

/// Eight signed bytes as floats.
inline __m256 bytes_to_floats(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

/// acc = dot products of one block, exact, times group scales: MR rows of `a` (stride a_stride), NR panels' data at `w`
/// (stride w_stride). Inlined, or acc would live in memory.
template <int MR, int NR>
[[gnu::always_inline]] inline void dot4(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                        const Groups (&groups)[NR], __m256i (&acc)[MR][NR]) {
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
    for (int j = 0; j < NR; ++j) acc[i][j] = _mm256_madd_epi16(acc[i][j], groups[j].half[0]);
}

/// Codes of 2, 3, 5 and 6 bits: a half of the block after the other.
template <int kBits, int MR, int NR>
[[gnu::always_inline]] inline void dot_halves(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
                                              int64_t w_stride, const Groups (&groups)[NR], __m256i (&acc)[MR][NR]) {
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
          const __m256i sum = _mm256_madd_epi16(part[i][j], groups[j].half[high]);
          acc[i][j] = high == 0 && s == kWiden - 1 ? sum : _mm256_add_epi32(acc[i][j], sum);
        }
    }
  }
}

/// Signed weights: bytes, or nibbles through the table.
template <bool kTable, int MR, int NR>
[[gnu::always_inline]] inline void dot_signed(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
                                              int64_t w_stride, const Groups (&groups)[NR], __m256i (&acc)[MR][NR]) {
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
        const __m256i dot = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_a), groups[j].half[0]);
        acc[i][j] = s == 0 ? dot : _mm256_add_epi32(acc[i][j], dot);
        settle(acc[i][j]);
      }
    }
  }
}

template <IntFormat kFormat, int MR, int NR>
[[gnu::noinline]] void tile(const GemmIntArgs& p, int64_t row, int64_t panel) {
  constexpr IntFormat f = kFormat;
  constexpr int kBlockBytes = f.bits * 32;
  const IntPanel at = int_panel(f, p.blocks, 8);
  const int64_t k = p.blocks * 32;
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  const std::uint8_t* mins = scales + at.mins;
  const std::uint8_t* data = scales + at.data;
  const std::int8_t* a = p.a + row * k;
  const float* a_scale = p.a_scale + row * p.blocks;
  const float* a_sum = reinterpret_cast<const float*>(p.a_sum) + row * p.blocks;  // pairs, indexed as a_scale

  __m256 acc_f[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) acc_f[i][j] = _mm256_setzero_ps();

  for (int64_t b = 0; b < p.blocks; ++b) {
    __m256i acc[MR][NR];
    Groups groups[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j)
      groups[j] = load_groups<kFormat>(scales + j * p.panel_bytes + at.group_scales, b);
    if constexpr (f.bits == 8 || f.table)
      dot_signed<f.table, MR, NR>(a + b * 32, k, data, p.panel_bytes, groups, acc);
    else if constexpr (f.bits == 4)
      dot4<MR, NR>(a + b * 32, k, data, p.panel_bytes, groups, acc);
    else
      dot_halves<f.bits, MR, NR>(a + b * 32, k, data, p.panel_bytes, groups, acc);
    if constexpr (MR == 1) {  // one row waits for memory: ask ahead, across the page ends where the hardware stops
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j)
#pragma GCC unroll 4
        for (int line = 0; line < kBlockBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(data + j * p.panel_bytes + 1024 + line), _MM_HINT_T0);
    }
    data += kBlockBytes;

    const int64_t half = (f.super ? b / 8 : b) * 16;
    __m256 d[NR], m[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      d[j] = F16::load8(reinterpret_cast<const std::uint16_t*>(scales + j * p.panel_bytes + half));
      if constexpr (f.has_min)
        m[j] = F16::load8(reinterpret_cast<const std::uint16_t*>(mins + j * p.panel_bytes + half));
      if constexpr (f.super && f.group == 32) {
        const std::uint8_t* first = scales + j * p.panel_bytes + b * 8;
        d[j] = _mm256_mul_ps(d[j], bytes_to_floats(first + at.group_scales));
        if constexpr (f.has_min) m[j] = _mm256_mul_ps(m[j], bytes_to_floats(first + at.group_mins));
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256 scale = _mm256_broadcast_ss(a_scale + i * p.blocks + b);
      const __m256i sums = broadcast4(a_sum + i * p.blocks + b);
      const __m256 sum = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(sums, _mm256_set1_epi16(1))), scale);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) {
        if constexpr (f.offset != 0 && f.bits != 8) {
          const __m256i offsets = _mm256_mullo_epi16(groups[j].scales, _mm256_set1_epi16(f.offset));
          acc[i][j] = _mm256_sub_epi32(acc[i][j], _mm256_madd_epi16(sums, offsets));
        }
        acc_f[i][j] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc[i][j]), scale), d[j], acc_f[i][j]);
        if constexpr (f.has_min && f.group == 32) acc_f[i][j] = _mm256_fmadd_ps(sum, m[j], acc_f[i][j]);
        if constexpr (f.has_min && f.group == 16) {
          const __m256 min = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(sums, groups[j].mins)), scale);
          acc_f[i][j] = _mm256_fmadd_ps(min, m[j], acc_f[i][j]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j)
      store_upto(p.c + (row + i) * p.c_stride + (panel + j) * 8, p.n - (panel + j) * 8, acc_f[i][j]);
}

/// MR rows times `count` <= 4 neighbouring panels.
template <IntFormat kFormat, int MR>
void tiles(const GemmIntArgs& p, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR == 1) {
    if (count == 4) return tile<kFormat, 1, 4>(p, row, panel);
  }
  for (; count >= 2; count -= 2, panel += 2) tile<kFormat, MR, 2>(p, row, panel);
  if (count == 1) tile<kFormat, MR, 1>(p, row, panel);
}

// 4 x 2 for many rows, 1 x 4 for one: the fastest of {1,2,3,4,6} x {1,2,3,4,8} on Zen 3 (bench/kernels_bench: q4_0 88 %
// of the vpmaddubsw + vpmaddwd loop; 4 x 1 79 %, 2 x 4 78 %).
template <IntFormat kFormat>
void gemm(const GemmIntArgs& p) {
  constexpr int64_t kActivationBytes = 128 * 1024;  // rows that stay in a 512 KB L2 while all panels pass
  const int64_t chunk = max64(4, kActivationBytes / (p.blocks * 32) / 4 * 4);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = begin;
      for (; row + 4 <= end; row += 4) tiles<kFormat, 4>(p, row, panel, count);
      if constexpr (is_common(kFormat)) {
        if (end - row == 3) tiles<kFormat, 3>(p, row, panel, count), row += 3;
        if (end - row == 2) tiles<kFormat, 2>(p, row, panel, count), row += 2;
      }
      for (; row < end; ++row) tiles<kFormat, 1>(p, row, panel, count);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::avx2
