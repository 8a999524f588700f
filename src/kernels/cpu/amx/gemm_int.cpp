// Integer weights on the tile unit: 16 rows x one panel of 16 at a time, any number of such row tiles; the rows that
// are left go to AVX-512, which gives the same bits.
//
// A block of 32 k is one product of tiles, [16 rows][32 bytes] times [8][16][4], exact in int32; then it becomes
// floats, so each block starts from zero and blocks wait for nothing but their chain of additions. A product takes the
// tile unit 16 cycles, turning its 256 sums into floats AVX-512 about 24: that is the limit. Hence one row tile, whose
// 16 vectors of floats stay in registers, not 2 x 2, which would save tile loads but pass all floats through memory;
// and hence two sets of tiles in turns, so that a block's product runs while the one before is turned into floats.
//
// Weights are signed bytes here. Codes are unpacked, kBlocks blocks of a panel at a time, and used for all row tiles;
// q8_0 panels are tiles as they are.

#include "kernels/cpu/avx512/gemm_int.h"
#include "kernels/cpu/amx/tiles.h"

namespace millrace::kernels::MILLRACE_AMX {
namespace {

using namespace MILLRACE_AVX512;

constexpr int kRows = 16;
constexpr int kBlockBytes = 8 * 64;  // of weights as bytes: [8][16][4], steps of low elements first
constexpr int64_t kBlocks = 64;      // 32 KiB: two thirds of L1

/// A: tiles 0, 1. B: 2, 3. C: 4 to 7. With group 16 the two of A and B are a block's halves.
template <IntFormat kFormat>
TileConfig tile_config() {
  constexpr int kParts = kFormat.group == 16 ? 2 : 1;
  TileConfig config;
  config.set(0, 1, kRows, 32 / kParts);
  config.set(2, 3, 8 / kParts, 64);
  config.set(4, 7, kRows, 64);
  return config;
}

template <IntFormat kFormat>
void unpack(const std::uint8_t* data, int64_t blocks, std::uint8_t* out) {
  constexpr IntFormat f = kFormat;
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(unsigned_offset(f)));
  for (int64_t b = 0; b < blocks; ++b, data += f.bits * 64)
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s, out += 64)
      _mm512_store_si512(out, _mm512_sub_epi8(weights<kFormat>(s % 4, s / 4, data), offset));
}

/// One block's sums of 16 rows and a panel; with group 16 of the low and of the high elements.
template <int kParts>
struct alignas(64) Sums {
  std::int32_t part[kParts][kRows][16];
};

template <int kSet, int kParts>
[[gnu::always_inline]] inline void multiply(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
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

/// Blocks [from, to) of 16 rows and one panel, whose bytes are at w. Between calls for the same outputs they lie in c.
template <IntFormat kFormat>
[[gnu::noinline]] void tile(const GemmIntArgs& p, int64_t row, int64_t panel, int64_t from, int64_t to,
                            const std::uint8_t* w) {
  constexpr int kParts = kFormat.group == 16 ? 2 : 1;
  const IntPanel at = int_panel(kFormat, p.blocks, 16);
  const int64_t k = p.blocks * 32, n = p.n - panel * 16;
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  const std::int8_t* a = p.a + row * k;
  const float* a_scale = p.a_scale + row * p.blocks;
  const std::int16_t* a_sum = p.a_sum + row * p.blocks * 2;
  float* c = p.c + row * p.c_stride + panel * 16;

  __m512 f[kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) f[i] = from == 0 ? _mm512_setzero_ps() : load_upto(c + i * p.c_stride, n);

  Sums<kParts> sums[2];
  multiply<0>(a + from * 32, k, w, sums[0]);
  for (int64_t b = from; b < to; ++b) {
    const int set = (b - from) % 2;
    w += kBlockBytes;
    if (b + 1 < to) {  // ahead of this block's floats
      if (set == 0)
        multiply<1>(a + (b + 1) * 32, k, w, sums[1]);
      else
        multiply<0>(a + (b + 1) * 32, k, w, sums[0]);
    }
    const PanelScales scale = load_scales<kFormat>(scales, at, b);
    const Sums<kParts>& block = sums[set];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
      f[i] = add_block<kFormat>(f[i], _mm512_load_si512(block.part[0][i]), _mm512_load_si512(block.part[kParts - 1][i]),
                                scale, row_scales(a_scale[i * p.blocks + b], a_sum + (i * p.blocks + b) * 2));
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) store_upto(c + i * p.c_stride, n, f[i]);
}

template <IntFormat kFormat>
void row_tiles(const GemmIntArgs& p, int64_t rows) {
  constexpr int64_t kActivationBytes = 1024 * 1024;  // rows that stay in a 2 MB L2 while all panels pass
  const int64_t chunk = max64(kRows, kActivationBytes / (p.blocks * 32) / kRows * kRows);
  const IntPanel at = int_panel(kFormat, p.blocks, 16);
  alignas(64) std::uint8_t unpacked[kFormat.bits == 8 ? 1 : kBlocks * kBlockBytes];
  configure(tile_config<kFormat>());
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, rows);
    for (int64_t panel = 0; panel < p.panels; ++panel)
      for (int64_t from = 0; from < p.blocks; from += kBlocks) {
        const int64_t to = min64(from + kBlocks, p.blocks);
        const std::uint8_t* w = p.w + panel * p.panel_bytes + at.data + from * kFormat.bits * 64;
        if constexpr (kFormat.bits != 8) {
          unpack<kFormat>(w, to - from, unpacked);
          w = unpacked;
        }
        for (int64_t row = begin; row < end; row += kRows) tile<kFormat>(p, row, panel, from, to, w);
      }
  }
  release();
}

template <IntFormat kFormat>
void gemm(GemmIntArgs p, void (*fewer_rows)(const GemmIntArgs&)) {
  const int64_t rows = p.rows / kRows * kRows;
  if (rows > 0) row_tiles<kFormat>(p, rows);
  p.a += rows * p.blocks * 32;
  p.a_scale += rows * p.blocks;
  p.a_sum += rows * p.blocks * 2;
  p.c += rows * p.c_stride;
  p.rows -= rows;
  if (p.rows > 0) fewer_rows(p);
}

}  // namespace

#define FORMAT(name, ...) \
  void gemm_##name(const GemmIntArgs& p) { gemm<int_formats::name>(p, MILLRACE_AVX512::gemm_##name); }
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT

}  // namespace millrace::kernels::MILLRACE_AMX
