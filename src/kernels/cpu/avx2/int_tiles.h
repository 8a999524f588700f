#pragma once

// Integer weights in panels of 8 rows: what AVX2 and AVX-VNNI have in common, which is all but the products of a block.
// Those are what a Dot's products<format, MR, NR>(block, out) says: out[i][j] = I of params.h, as a float, of MR rows
// and NR panels.
//
// Every function is internal to the file that includes it (kernels/registry.h says why).

#include "kernels/cpu/avx2/vec.h"
#include "kernels/params.h"

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

/// Group 16: one block's group scales and minimums of the eight rows of a panel, 16 bits each, the two of a row side by
/// side, as a_sum has its sums. Group 32: scales of 1.
struct Groups {
  __m256i scales, mins;
};

template <IntFormat kFormat>
[[gnu::always_inline]] inline Groups load_groups(const std::uint8_t* scales, int64_t b) {
  constexpr IntFormat f = kFormat;
  Groups out;
  if constexpr (f.group == 32) {
    out.scales = _mm256_set1_epi16(1);
  } else {
    __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + b * 16));
    if constexpr (shares_scale_byte(f)) {
      const __m128i low = _mm_set1_epi8(15);
      out.mins = _mm256_cvtepi8_epi16(_mm_and_si128(_mm_srli_epi16(v, 4), low));
      v = _mm_and_si128(v, low);
    }
    out.scales = _mm256_cvtepi8_epi16(v);
  }
  return out;
}

/// Eight signed bytes as floats.
inline __m256 bytes_to_floats(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

/// One block of MR rows and NR panels.
template <int NR>
struct Block {
  const std::int8_t* a;
  int64_t a_stride;
  const std::int16_t* a_sum;  // pairs
  int64_t a_sum_stride;
  const std::uint8_t* w;  // data
  int64_t w_stride;
  Groups groups[NR];

  __m256i sums(int row) const { return broadcast4(a_sum + row * a_sum_stride); }
};

template <class Dot, IntFormat kFormat, int MR, int NR>
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
  const std::int16_t* a_sum = p.a_sum + row * p.blocks * 2;

  __m256 acc_f[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) acc_f[i][j] = _mm256_setzero_ps();

  for (int64_t b = 0; b < p.blocks; ++b) {
    Block<NR> block{a + b * 32, k, a_sum + b * 2, p.blocks * 2, data, p.panel_bytes, {}};
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j)
      block.groups[j] = load_groups<kFormat>(scales + j * p.panel_bytes + at.group_scales, b);
    __m256 product[MR][NR];
    Dot::template products<kFormat, MR, NR>(block, product);
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
      const __m256i sums = block.sums(i);
      const __m256 sum = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(sums, _mm256_set1_epi16(1))), scale);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) {
        acc_f[i][j] = _mm256_fmadd_ps(_mm256_mul_ps(product[i][j], scale), d[j], acc_f[i][j]);
        if constexpr (f.has_min && f.group == 32) acc_f[i][j] = _mm256_fmadd_ps(sum, m[j], acc_f[i][j]);
        if constexpr (f.has_min && f.group == 16) {
          const __m256 min = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(sums, block.groups[j].mins)), scale);
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
template <class Dot, IntFormat kFormat, int MR>
void tiles(const GemmIntArgs& p, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR == 1) {
    if (count == 4) return tile<Dot, kFormat, 1, 4>(p, row, panel);
  }
  for (; count >= 2; count -= 2, panel += 2) tile<Dot, kFormat, MR, 2>(p, row, panel);
  if (count == 1) tile<Dot, kFormat, MR, 1>(p, row, panel);
}

// 4 x 2 for many rows, 1 x 4 for one: the fastest of {1,2,3,4,6} x {1,2,3,4,8} on Zen 3 with AVX2 (bench/kernels_bench:
// q4_0 88 % of the vpmaddubsw + vpmaddwd loop; 4 x 1 79 %, 2 x 4 78 %). With vpdpbusd on Emerald Rapids, GOPS at k =
// 1024: q4_0 230, 6 x 2 237, 3 x 3 227, 8 x 1 223, 4 x 1 204; q4_k 163, 6 x 2 160, 8 x 1 169. Six rows are not worth
// their compile time.
template <class Dot, IntFormat kFormat>
void gemm(const GemmIntArgs& p) {
  constexpr int64_t kActivationBytes = 128 * 1024;  // rows that stay in a 512 KB L2 while all panels pass
  const int64_t chunk = max64(4, kActivationBytes / (p.blocks * 32) / 4 * 4);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = begin;
      for (; row + 4 <= end; row += 4) tiles<Dot, kFormat, 4>(p, row, panel, count);
      if constexpr (is_common(kFormat)) {
        if (end - row == 3) tiles<Dot, kFormat, 3>(p, row, panel, count), row += 3;
        if (end - row == 2) tiles<Dot, kFormat, 2>(p, row, panel, count), row += 2;
      }
      for (; row < end; ++row) tiles<Dot, kFormat, 1>(p, row, panel, count);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::avx2
