#pragma once

// Integer weights on AVX-512 VNNI: register tiles of MR rows x NR panels. Every function is internal to the file that
// includes it (kernels/registry.h says why).
//
// vpdpbusd multiplies unsigned weights with signed activations. Codes are unsigned as they are; bytes become so by
// flipping their top bit (+128), table values by a table that is 128 higher. The offset is taken back by the
// accumulators' start value, -offset * a_sum.
//
// Group scales multiply the accumulators as floats: that is exact (int_formats.h), and both conversions are needed
// anyway.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

inline __m512i broadcast4(const void* p) {
  int x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}

/// Every byte's bits moved up by `by`, or down. They cross bytes: the caller masks.
[[gnu::always_inline]] inline __m512i move_bits(__m512i v, int by) {
  return by > 0   ? _mm512_slli_epi16(v, static_cast<unsigned>(by))
         : by < 0 ? _mm512_srli_epi16(v, static_cast<unsigned>(-by))
                  : v;
}

/// The unsigned weights of step s of the block at w: of its low elements (high = 0) or of the others.
template <IntFormat kFormat>
[[gnu::always_inline]] inline __m512i weights(int s, int high, const std::uint8_t* w) {
  constexpr IntFormat f = kFormat;
  constexpr int kFirst = f.bits == 6 ? 4 : 0;  // plane T begins there, and so do its bits of a code
  if constexpr (f.bits == 8)
    return _mm512_xor_si512(_mm512_load_si512(w + (4 * high + s) * 64), _mm512_set1_epi8(-128));
  __m512i q = _mm512_setzero_si512();
  if constexpr (f.bits >= 4)
    q = _mm512_and_si512(move_bits(_mm512_load_si512(w + s * 64), -4 * high), _mm512_set1_epi8(15));
  if constexpr (f.bits == 6 || f.bits < 4) {
    const __m512i t = move_bits(_mm512_load_si512(w + (kFirst + s / 2) * 64), kFirst - (s % 2 * 4 + high * 2));
    q = _mm512_or_si512(q, _mm512_and_si512(t, _mm512_set1_epi8(3 << kFirst)));
  }
  if constexpr (f.bits % 2 == 1) {
    const __m512i o = move_bits(_mm512_load_si512(w + (f.bits - 1) * 64), f.bits - 1 - (high * 4 + s));
    q = _mm512_or_si512(q, _mm512_and_si512(o, _mm512_set1_epi8(1 << (f.bits - 1))));
  }
  if constexpr (f.table) {
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Table)));
    q = _mm512_shuffle_epi8(_mm512_xor_si512(table, _mm512_set1_epi8(-128)), q);
  }
  return q;
}

/// acc += dot products: MR rows of `a` (stride a_stride), NR panels' block at `w` (stride w_stride). With kParts = 2
/// those of the low and of the high elements apart. Inlined, or acc would live in memory.
template <IntFormat kFormat, int MR, int NR, int kParts>
[[gnu::always_inline]] inline void dot(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                       __m512i (&acc)[kParts][MR][NR]) {
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) {
    __m512i lo[NR], hi[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) {
      lo[j] = weights<kFormat>(s, 0, w + j * w_stride);
      hi[j] = weights<kFormat>(s, 1, w + j * w_stride);
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m512i x = broadcast4(a + i * a_stride + 4 * s), y = broadcast4(a + i * a_stride + 16 + 4 * s);
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) acc[0][i][j] = _mm512_dpbusd_epi32(acc[0][i][j], lo[j], x);
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) acc[kParts - 1][i][j] = _mm512_dpbusd_epi32(acc[kParts - 1][i][j], hi[j], y);
    }
  }
}

/// One block's group scales of the sixteen rows of a panel (of both halves, group 16), and their minimums, 16 bits
/// each, the two of a row side by side, as a_sum has its sums.
struct Groups {
  __m512 scale[2];
  __m512i mins;
};

inline __m512i widen_bytes(__m256i v) { return _mm512_cvtepi8_epi16(v); }

template <IntFormat kFormat>
[[gnu::always_inline]] inline Groups load_groups(const std::uint8_t* scales, const std::uint8_t* mins, int64_t b) {
  constexpr IntFormat f = kFormat;
  Groups out;
  if constexpr (!f.super) {
    out.scale[0] = out.scale[1] = _mm512_set1_ps(1);
    out.mins = _mm512_set1_epi16(1);
    return out;
  }
  __m512i pairs;
  if constexpr (f.group == 32) {
    const auto twice = [](const std::uint8_t* p) {
      const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      return widen_bytes(join(_mm_unpacklo_epi8(v, v), _mm_unpackhi_epi8(v, v)));
    };
    pairs = twice(scales + b * 16);
    if constexpr (f.has_min) out.mins = twice(mins + b * 16);
  } else {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + b * 32));
    if constexpr (shares_scale_byte(f)) {
      const __m256i low = _mm256_set1_epi8(15);
      out.mins = widen_bytes(_mm256_and_si256(_mm256_srli_epi16(v, 4), low));
      v = _mm256_and_si256(v, low);
    }
    pairs = widen_bytes(v);
    out.scale[0] = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16));
  }
  out.scale[1] = _mm512_cvtepi32_ps(_mm512_srai_epi32(pairs, 16));
  if constexpr (f.group == 32) out.scale[0] = out.scale[1];
  return out;
}

/// What one block has for the sixteen rows of a panel. m: only has_min.
struct PanelScales {
  __m512 d, m;
  Groups groups;
};

template <IntFormat kFormat>
[[gnu::always_inline]] inline PanelScales load_scales(const std::uint8_t* panel, const IntPanel& at, int64_t b) {
  constexpr IntFormat f = kFormat;
  const int64_t half = (f.super ? b / 8 : b) * 32;
  PanelScales out;
  out.groups = load_groups<kFormat>(panel + at.group_scales, panel + at.group_mins, b);
  out.d = F16::load16(reinterpret_cast<const std::uint16_t*>(panel + half));
  if constexpr (f.has_min) out.m = F16::load16(reinterpret_cast<const std::uint16_t*>(panel + at.mins + half));
  return out;
}

/// What one block has for a row of activations.
struct RowScales {
  __m512 scale, sum;
  const std::int16_t* sums;  // of both halves
};

[[gnu::always_inline]] inline RowScales row_scales(float a_scale, const std::int16_t* sums) {
  const __m512 scale = _mm512_set1_ps(a_scale);
  return {scale, _mm512_mul_ps(_mm512_set1_ps(static_cast<float>(sums[0] + sums[1])), scale), sums};
}

/// Adds one block to a row's sixteen outputs: its exact sums in `low` or, with group 16, of the low and the high
/// elements. The accumulator times the row's scale first, then the weight's: multiplying the scales first costs 20 %
/// (study).
template <IntFormat kFormat>
[[gnu::always_inline]] inline __m512 add_block(__m512 out, __m512i low, __m512i high, const PanelScales& w,
                                               const RowScales& a) {
  constexpr IntFormat f = kFormat;
  __m512 x = _mm512_cvtepi32_ps(low);
  if constexpr (f.super) x = _mm512_mul_ps(x, w.groups.scale[0]);
  if constexpr (f.group == 16) x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), w.groups.scale[1], x);
  out = _mm512_fmadd_ps(_mm512_mul_ps(x, a.scale), w.d, out);
  if constexpr (f.has_min && !f.super) out = _mm512_fmadd_ps(a.sum, w.m, out);
  if constexpr (f.has_min && f.super) {
    const __m512 min = _mm512_cvtepi32_ps(_mm512_madd_epi16(broadcast4(a.sums), w.groups.mins));
    out = _mm512_fmadd_ps(_mm512_mul_ps(min, a.scale), w.m, out);
  }
  return out;
}

template <IntFormat kFormat, int MR, int NR>
[[gnu::noinline]] void tile(const GemmIntArgs& p, int64_t row, int64_t panel) {
  constexpr IntFormat f = kFormat;
  constexpr int kBlockBytes = f.bits * 64, kParts = f.group == 16 ? 2 : 1;
  const IntPanel at = int_panel(f, p.blocks, 16);
  const int64_t k = p.blocks * 32;
  const std::uint8_t* first = p.w + panel * p.panel_bytes;
  const std::uint8_t* data = first + at.data;
  const std::int8_t* a = p.a + row * k;
  const float* a_scale = p.a_scale + row * p.blocks;
  const std::int16_t* a_sum = p.a_sum + row * p.blocks * 2;

  __m512 acc_f[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) acc_f[i][j] = _mm512_setzero_ps();

  for (int64_t b = 0; b < p.blocks; ++b) {
    __m512i acc[kParts][MR][NR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const std::int16_t* sums = a_sum + (i * p.blocks + b) * 2;
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j)
        if constexpr (kParts == 2) {
          acc[0][i][j] = _mm512_set1_epi32(-unsigned_offset(f) * sums[0]);
          acc[1][i][j] = _mm512_set1_epi32(-unsigned_offset(f) * sums[1]);
        } else {
          acc[0][i][j] = _mm512_set1_epi32(-unsigned_offset(f) * (sums[0] + sums[1]));
        }
    }
    dot<kFormat, MR, NR, kParts>(a + b * 32, k, data, p.panel_bytes, acc);
    if constexpr (MR == 1) {  // one row waits for memory: ask ahead, across the page ends where the hardware stops
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j)
#pragma GCC unroll 8
        for (int line = 0; line < kBlockBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(data + j * p.panel_bytes + 2048 + line), _MM_HINT_T0);
    }
    data += kBlockBytes;

    PanelScales scale[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) scale[j] = load_scales<kFormat>(first + j * p.panel_bytes, at, b);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const RowScales row_scale = row_scales(a_scale[i * p.blocks + b], a_sum + (i * p.blocks + b) * 2);
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j)
        acc_f[i][j] = add_block<kFormat>(acc_f[i][j], acc[0][i][j], acc[kParts - 1][i][j], scale[j], row_scale);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j)
      store_upto(p.c + (row + i) * p.c_stride + (panel + j) * 16, p.n - (panel + j) * 16, acc_f[i][j]);
}

/// MR rows times `count` <= 4 neighbouring panels.
template <IntFormat kFormat, int MR>
void tiles(const GemmIntArgs& p, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR == 1 || (MR == 2 && is_common(kFormat))) {
    if (count == 4) return tile<kFormat, MR, 4>(p, row, panel);
  }
  for (; count >= 2; count -= 2, panel += 2) tile<kFormat, MR, 2>(p, row, panel);
  if (count == 1) tile<kFormat, MR, 1>(p, row, panel);
}

// 6 x 2: the best exact-scale tile of the study (0.75 of the INT8 roof on Zen 5), with 4 x 3. Group 16 has twice the
// accumulators: 4 x 2.
template <IntFormat kFormat>
void gemm(const GemmIntArgs& p) {
  constexpr int64_t kActivationBytes = 256 * 1024;  // rows that stay in L2 while all panels pass
  const int64_t chunk = max64(12, kActivationBytes / (p.blocks * 32) / 12 * 12);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = begin;
      if constexpr (is_common(kFormat)) {
        for (; row + 6 <= end; row += 6) tiles<kFormat, 6>(p, row, panel, count);
        if (end - row >= 4) tiles<kFormat, 4>(p, row, panel, count), row += 4;
        if (end - row >= 2) tiles<kFormat, 2>(p, row, panel, count), row += 2;
      } else {
        for (; row + 4 <= end; row += 4) tiles<kFormat, 4>(p, row, panel, count);
      }
      for (; row < end; ++row) tiles<kFormat, 1>(p, row, panel, count);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AVX512
