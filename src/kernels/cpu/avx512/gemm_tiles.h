#pragma once

// The tile loops of float products at both AVX-512 levels: one chain per output element, MR rows x NR panels at a time.
// A Format says what one step of a tile does.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

template <class Format, int MR, int NR>
[[gnu::noinline]] void float_tile(const typename Format::Args& p, int64_t row, int64_t panel) {
  const auto* a = p.a + row * p.a_stride;
  const std::uint8_t* w = p.w + panel * p.panel_bytes;
  __m512 f[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) f[i][j] = _mm512_setzero_ps();
  int64_t k = 0;
  for (; k + Format::kStep <= p.k; k += Format::kStep, w += Format::kWeightBytes) {
    if constexpr (MR == 1) {  // one row waits for memory: ask ahead, across the page ends where the hardware stops
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j)
        _mm_prefetch(reinterpret_cast<const char*>(w + j * p.panel_bytes + 2048), _MM_HINT_T0);
    }
    Format::template step<MR, NR>(a + k, p.a_stride, w, p.panel_bytes, f);
  }
  if (k < p.k) Format::template last<MR, NR>(a + k, p.a_stride, w, p.panel_bytes, f);
  store_tile(p.c + row * p.c_stride + panel * 16, p.c_stride, p.n - panel * 16, f);
}

/// MR rows times `count` <= 8 neighbouring panels.
template <class Format, int MR>
void float_tiles(const typename Format::Args& p, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR == 1) {
    if (count == 8) return float_tile<Format, 1, 8>(p, row, panel);
  }
  for (; count >= 4; count -= 4, panel += 4) float_tile<Format, MR, 4>(p, row, panel);
  for (; count >= 2; count -= 2, panel += 2) float_tile<Format, MR, 2>(p, row, panel);
  if (count == 1) float_tile<Format, MR, 1>(p, row, panel);
}

template <class Format>
void float_gemm(const typename Format::Args& p) {
  constexpr int64_t kActivationBytes = 256 * 1024;  // rows that stay in L2 while all panels pass
  constexpr int kRows = Format::kRows;
  const int64_t row_bytes = max64(p.k, 1) * static_cast<int64_t>(sizeof(*p.a));
  const int64_t chunk = max64(kRows, kActivationBytes / row_bytes / kRows * kRows);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 8) {
      const int64_t count = min64(8, p.panels - panel);
      int64_t row = begin;
      for (; row + kRows <= end; row += kRows) float_tiles<Format, kRows>(p, row, panel, count);
      if constexpr (kRows > 4) {
        if (end - row >= 4) float_tiles<Format, 4>(p, row, panel, count), row += 4;
      }
      if (end - row >= 2) float_tiles<Format, 2>(p, row, panel, count), row += 2;
      if (end - row == 1) float_tiles<Format, 1>(p, row, panel, count);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AVX512
