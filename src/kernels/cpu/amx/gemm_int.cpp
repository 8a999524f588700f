// Integer weights on the tile unit: 16 rows x one panel of 16 at a time, any number of such row tiles; the rows that
// are left go to AVX-512, which gives the same bits.
//
// Weights are prepared as AVX-512 prepares them for many rows (../avx512/gemm_wide.h): a chunk of blocks of two panels
// as unsigned bytes, [8][16][4] a block, which is what a tile has. What AVX-512's sums start with is added at the end.
//
// A block of 32 k is one product of tiles, [16 rows][32 bytes] times [8][16][4], exact in int32; then it becomes
// floats, so each block starts from zero and blocks wait for nothing but their chain of additions. A product takes the
// tile unit 16 cycles, turning its 256 sums into floats AVX-512 about 24: that is the limit. Hence one row tile, whose
// 16 vectors of floats stay in registers, not 2 x 2, which would save tile loads but pass all floats through memory;
// and hence two sets of tiles in turns, so that a block's product runs while the one before is turned into floats.

#include "kernels/cpu/avx512/gemm_int.h"
#include "kernels/cpu/amx/tiles.h"

namespace millrace::kernels::MILLRACE_AMX {
namespace {

using namespace MILLRACE_AVX512;

constexpr int kRows = 16;
static_assert(kMostWideRows % kRows == 0);
constexpr int kBlockBytes = 8 * 64;  // of weights

/// A: tiles 0, 1. B: 2, 3. C: 4 to 7. With group 16 the two of A and B are a block's halves.
template <int kParts>
TileConfig tile_config() {
  TileConfig config;
  config.set(0, 1, kRows, 32 / kParts);
  config.set(2, 3, 8 / kParts, 64);
  config.set(4, 7, kRows, 64);
  return config;
}

/// One block's sums of 16 rows and a panel; with group 16 of the low and of the high elements.
template <int kParts>
struct alignas(64) Sums {
  std::int32_t part[kParts][kRows][16];
};

template <int kSet, int kParts>
[[gnu::always_inline]] inline void products(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
                                            Sums<kParts>& out) {
  if constexpr (kParts == 1) {
    load<kSet>(a, a_stride);
    load<2 + kSet>(w, 64);
    zero<4 + kSet>();
    add_int8<4 + kSet, kSet, 2 + kSet>();
    store<4 + kSet>(out.part[0], 64);
  } else {
    constexpr int kLow = 4 + 2 * kSet, kHigh = kLow + 1;
    load<0>(a, a_stride);
    load<1>(a + 16, a_stride);
    load<2>(w, 64);
    load<3>(w + kBlockBytes / 2, 64);
    zero<kLow>();
    zero<kHigh>();
    add_int8<kLow, 0, 2>();
    add_int8<kHigh, 1, 3>();
    store<kLow>(out.part[0], 64);
    store<kHigh>(out.part[1], 64);
  }
}

/// 16 rows and one panel.
template <WideKind kKind>
[[gnu::noinline]] void tile(const WideArgs& p, int64_t row, int panel) {
  constexpr int kParts = kKind.group == 16 ? 2 : 1;
  const std::int8_t* a = p.a + row * p.k;
  const std::uint8_t* w = p.w->bytes[panel];
  const RowBlocks* rows = p.rows + row;
  float* c = p.c + row * p.c_stride + panel * 16;
  const int64_t n = p.n - panel * 16;

  __m512 f[kRows][1][1];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) f[i][0][0] = p.first ? _mm512_setzero_ps() : load_upto(c + i * p.c_stride, n);

  Sums<kParts> sums[2];
  products<0>(a, p.k, w, sums[0]);
  for (int64_t b = 0; b < p.blocks; ++b) {
    a += 32;
    w += kBlockBytes;
    if (b + 1 < p.blocks) {  // ahead of this block's floats
      if (b % 2 == 0)
        products<1>(a, p.k, w, sums[1]);
      else
        products<0>(a, p.k, w, sums[0]);
    }
    const BlockScales of[1] = {stored_scales<kKind>(p.w->scales[panel][b])};
    const Sums<kParts>& block = sums[b % 2];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      __m512i acc[kParts][1][1];
      start_sums<kKind.group>(rows + i, b, acc);
#pragma GCC unroll 2
      for (int h = 0; h < kParts; ++h)
        acc[h][0][0] = _mm512_add_epi32(acc[h][0][0], _mm512_load_si512(block.part[h][i]));
      add_scaled<kKind>(rows + i, b, acc, of, f[i]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) store_upto(c + i * p.c_stride, n, f[i][0][0]);
}

/// Asks for the next weights' share of the rows before `end`, so that they come while these rows' arithmetic runs.
void ask_next(const WideArgs& p, int64_t end, int64_t& asked) {
  for (const int64_t share = end * p.next_bytes / p.row_count; asked < share; asked += 64)
    for (int j = 0; j < 2; ++j)
      _mm_prefetch(reinterpret_cast<const char*>(p.next + j * p.next_stride + asked), _MM_HINT_T1);
}

template <WideKind kKind>
void row_tiles(const WideArgs& p) {
  int64_t asked = 0;
  for (int64_t row = 0; row < p.row_count; row += kRows) {
    for (int panel = 0; panel < p.panels; ++panel) tile<kKind>(p, row, panel);
    ask_next(p, row + kRows, asked);
  }
}

/// As multiply_wide, of a multiple of 16 rows. Tiles are configured.
void multiply_tiles(WideKind kind, const WideArgs& p) {
  if (kind.group == 32) return kind.has_min ? row_tiles<WideKind{32, true}>(p) : row_tiles<WideKind{32, false}>(p);
  return kind.has_min ? row_tiles<WideKind{16, true}>(p) : row_tiles<WideKind{16, false}>(p);
}

template <IntFormat kFormat>
void gemm(GemmIntArgs p, void (*fewer_rows)(const GemmIntArgs&)) {
  const int64_t all = p.rows, rows = all / kRows * kRows;
  if (rows > 0) {
    p.rows = rows;
    constexpr int kParts = kFormat.group == 16 ? 2 : 1;
    configure(tile_config<kParts>());
    many_rows<kFormat>(p, multiply_tiles, kRows);
    release();
  }
  p.a += rows * p.blocks * 32;
  p.a_scale += rows * p.blocks;
  p.a_sum += rows * p.blocks * 2;
  p.c += rows * p.c_stride;
  p.rows = all - rows;
  if (p.rows > 0) fewer_rows(p);
}

}  // namespace

#define FORMAT(name, ...) \
  void gemm_##name(const GemmIntArgs& p) { gemm<int_formats::name>(p, MILLRACE_AVX512::gemm_##name); }
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT

}  // namespace millrace::kernels::MILLRACE_AMX
