// Products of many rows with weights that are bytes: register tiles of MR rows x NR panels.

#include "kernels/cpu/avx512/gemm_wide.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

/// Bytes of the next weights that a tile asks for: `step` of both panels with each block, from `at` to `end`.
struct Ahead {
  int64_t at, end, step;
};

template <WideKind kKind, int MR, int NR>
[[gnu::noinline]] void wide_tile(const WideArgs& p, int64_t row, const Ahead& ahead) {
  constexpr int kParts = kKind.group == 16 ? 2 : 1;
  const std::int8_t* a = p.a + row * p.k;
  const RowBlocks* rows = p.rows + row;
  float* c = p.c + row * p.c_stride;
  __m512 acc_f[MR][NR];
  load_tile(c, p.c_stride, p.n, p.first, acc_f);

  const std::uint8_t* w_of[NR];
  for (int j = 0; j < NR; ++j) w_of[j] = p.w->bytes[j];
  int64_t asked = ahead.at;
  for (int64_t b = 0; b < p.blocks; ++b, a += 32) {
    for (const int64_t stop = min64(asked + ahead.step, ahead.end); asked < stop; asked += 64)
      for (int j = 0; j < 2; ++j)
        _mm_prefetch(reinterpret_cast<const char*>(p.next + j * p.next_stride + asked), _MM_HINT_T1);
    __m512i acc[kParts][MR][NR];
    start_sums<kKind.group>(rows, b, acc);
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) {
      __m512i w[NR];
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) w[j] = _mm512_load_si512(w_of[j] + s * 64);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m512i x = broadcast4(a + i * p.k + 4 * s);
        auto& sums = acc[kParts == 2 ? s / 4 : 0][i];
#pragma GCC unroll 4
        for (int j = 0; j < NR; ++j) sums[j] = _mm512_dpbusd_epi32(sums[j], w[j], x);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) w_of[j] += 8 * 64;
    BlockScales of[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) of[j] = stored_scales<kKind>(p.w->scales[j][b]);
    add_scaled<kKind>(rows, b, acc, of, acc_f);
  }
  store_tile(c, p.c_stride, p.n, acc_f);
}

template <WideKind kKind, int MR>
void rows_of(const WideArgs& p, int64_t row, const Ahead& ahead) {
  p.panels == 2 ? wide_tile<kKind, MR, 2>(p, row, ahead) : wide_tile<kKind, MR, 1>(p, row, ahead);
}

/// In tiles of MR rows and fewer, as equal as can be: kLeastWideRows or more make no tile of less than MR - 2. All of
/// them together ask for the next weights, block by block: a burst would wait for memory, and the products behind it.
template <WideKind kKind, int MR>
void multiply(const WideArgs& p) {
  const int64_t tiles = (p.row_count + MR - 1) / MR;
  Ahead ahead{0, p.next_bytes, 0};
  int64_t row = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t end = (t + 1) * p.row_count / tiles, left = (ahead.end - ahead.at) / 64,
                  blocks = (tiles - t) * p.blocks;
    ahead.step = (left + blocks - 1) / blocks * 64;
    switch (MR - (end - row)) {
      case 0:
        rows_of<kKind, MR>(p, row, ahead);
        break;
      case 1:
        rows_of<kKind, MR - 1>(p, row, ahead);
        break;
      default:
        rows_of<kKind, MR - 2>(p, row, ahead);
        break;
    }
    row = end;
    ahead.at = min64(ahead.end, ahead.at + p.blocks * ahead.step);
  }
}

}  // namespace

void multiply_wide(WideKind kind, const WideArgs& p) {
  constexpr int kRows = kWideTileRows;
  if (kind.group == 32)
    return kind.has_min ? multiply<WideKind{32, true}, kRows>(p) : multiply<WideKind{32, false}, kRows>(p);
  return kind.has_min ? multiply<WideKind{16, true}, 4>(p) : multiply<WideKind{16, false}, 4>(p);
}

}  // namespace millrace::kernels::MILLRACE_AVX512
