#pragma once

// The format-independent half of integer products on AVX-512: sums of a block and their scales, and products of many
// rows with weights that gemm_int.h has turned into bytes.
//
// Sums start at a bias that makes their bits a float: 0x4B400000 + n is 3 * 2^22 + n for |n| < 2^22, and
//   fma(3 * 2^22 + n, s, -3 * 2^22 * s) = n * s, rounded once
// as long as 3 * 2^22 * s is exact, which scales of 22 bits see to (params.h). That is conversion and multiplication in
// one instruction.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AVX512 {

constexpr int kIntBias = 0x4B400000;
constexpr float kFloatBias = 0x1.8p23f;

/// Blocks of k that are worked on together, at most: as bytes two panels of them stay in L1.
constexpr int kChunkBlocks = 32;

/// Rows from which weights are turned into bytes, and rows whose RowBlocks stay in L2.
constexpr int kLeastWideRows = 12, kMostWideRows = 192;

/// Rows of multiply_wide's tiles in group 32, at most: with 2 panels 14 of 32 registers are sums; 6 are 3 % slower (decision 0012).
constexpr int kWideTileRows = 7;

/// What a chunk of one row brings to every product with it.
struct RowBlocks {
  int start[2][kChunkBlocks];  // kIntBias - the weights' offset * sum; group 16: of either half
  float scale[kChunkBlocks];
  float back[kChunkBlocks];  // -kFloatBias * scale
  float sum[kChunkBlocks];   // sum * scale: what a minimum is multiplied with
  int pair[kChunkBlocks];    // group 16 with minimums: both halves' sums, 16 bits each
};

/// One block's scales of the sixteen rows of a panel, in memory.
struct alignas(64) WideScales {
  float d[16], m[16];
  float group[2][16], back[2][16];  // group 16 only; back = -kFloatBias * group
  short mins[32];                   // group 16 with minimums: of both halves side by side
};

/// A chunk of two panels. bytes: [blocks][8][16][4] of a panel, unsigned: (s, p, j) is element 4 s + j of row p.
struct WideWeights {
  const std::uint8_t* bytes[2];
  WideScales scales[2][kChunkBlocks];
  alignas(64) std::uint8_t memory[2][kChunkBlocks][8 * 64];  // where they are, unless they came as bytes
};

struct WideKind {
  int group;
  bool has_min;
};

/// c[row][column] += (first: =) the products of one chunk.
struct WideArgs {
  const std::int8_t* a;
  std::int64_t k;  // row stride of a
  const RowBlocks* rows;
  std::int64_t row_count;
  std::int64_t blocks;
  const WideWeights* w;
  int panels;  // 1 or 2
  float* c;
  std::int64_t c_stride;
  std::int64_t n;  // columns that exist
  bool first;
  const std::uint8_t* next;  // packed weights that will be wanted next, of two panels
  std::int64_t next_stride;
  std::int64_t next_bytes;  // of each; 0: none
};
void multiply_wide(WideKind kind, const WideArgs& p);

namespace {

/// The same in registers.
struct BlockScales {
  __m512 d, m;
  __m512 group[2], back[2];
  __m512i mins;
};

inline __m512i broadcast4(const void* p) {
  int x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}

template <int kGroup, int kParts, int MR, int NR>
[[gnu::always_inline]] inline void start_sums(const RowBlocks* rows, int64_t b, __m512i (&acc)[kParts][MR][NR]) {
  static_assert(kParts == (kGroup == 16 ? 2 : 1));
#pragma GCC unroll 2
  for (int h = 0; h < kParts; ++h)
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) acc[h][i][j] = _mm512_set1_epi32(rows[i].start[h][b]);
}

template <WideKind kKind>
[[gnu::always_inline]] inline BlockScales stored_scales(const WideScales& wide) {
  BlockScales out;
  out.d = _mm512_load_ps(wide.d);
  if constexpr (kKind.has_min) out.m = _mm512_load_ps(wide.m);
  if constexpr (kKind.group == 16) {
    for (int h = 0; h < 2; ++h)
      out.group[h] = _mm512_load_ps(wide.group[h]), out.back[h] = _mm512_load_ps(wide.back[h]);
    if constexpr (kKind.has_min) out.mins = _mm512_load_si512(wide.mins);
  }
  return out;
}

/// acc_f += one block's sums times their scales, as params.h has it.
template <WideKind kKind, int kParts, int MR, int NR>
[[gnu::always_inline]] inline void add_scaled(const RowBlocks* rows, int64_t b, const __m512i (&acc)[kParts][MR][NR],
                                              const BlockScales (&of)[NR], __m512 (&acc_f)[MR][NR]) {
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    const __m512 scale = _mm512_set1_ps(rows[i].scale[b]);
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) {
      const __m512 first = _mm512_castsi512_ps(acc[0][i][j]), second = _mm512_castsi512_ps(acc[kParts - 1][i][j]);
      __m512 scaled;
      if constexpr (kKind.group == 32) {
        scaled = _mm512_fmadd_ps(first, scale, _mm512_set1_ps(rows[i].back[b]));
      } else {
        const __m512 low = _mm512_fmadd_ps(first, of[j].group[0], of[j].back[0]);
        const __m512 high = _mm512_fmadd_ps(second, of[j].group[1], of[j].back[1]);
        scaled = _mm512_mul_ps(_mm512_add_ps(low, high), scale);
      }
      acc_f[i][j] = _mm512_fmadd_ps(scaled, of[j].d, acc_f[i][j]);
      if constexpr (kKind.has_min && kKind.group == 32)
        acc_f[i][j] = _mm512_fmadd_ps(_mm512_set1_ps(rows[i].sum[b]), of[j].m, acc_f[i][j]);
      if constexpr (kKind.has_min && kKind.group == 16) {
        const __m512 min = _mm512_cvtepi32_ps(_mm512_madd_epi16(_mm512_set1_epi32(rows[i].pair[b]), of[j].mins));
        acc_f[i][j] = _mm512_fmadd_ps(_mm512_mul_ps(min, scale), of[j].m, acc_f[i][j]);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AVX512
