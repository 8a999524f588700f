// bf16 weights on the tile unit: 2 row tiles x 2 panels, or one x 4. A panel's 16 pairs of k are a tile as they are.
//
// The unit adds 32 k as two chains before it adds them to the sum, so its bits are those of no other level. Within this
// one an output's are its own: every number of rows goes through the unit, whose rows do not know of each other, in the
// same steps of 32 k counted from 0, the last one filled up with zeros.

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AMX {
namespace {

using namespace MILLRACE_AVX512;

constexpr int kRows = 16, kStep = 32;

/// C: tiles 0 to 3, [row tile][panel]. A: 4, 5. B: 6, 7.
TileConfig tile_config(int64_t rows) {
  TileConfig config;
  const int64_t first = min64(rows, kRows), second = rows - first;
  config.set(0, 1, first, 64);
  config.set(2, 3, second > 0 ? second : first, 64);
  config.set(4, 4, first, 64);
  if (second > 0) config.set(5, 5, second, 64);
  config.set(6, 7, 16, 64);
  return config;
}

/// One step: row tiles kRows * a_stride apart, `panels` panels w_stride bytes apart.
template <int kRowTiles>
[[gnu::always_inline]] inline void step(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                        int64_t w_stride, int64_t panels) {
  load<4>(a, a_stride * 2);
  if constexpr (kRowTiles == 2) load<5>(a + kRows * a_stride, a_stride * 2);
  load<6>(w, 64);
  add_bf16<0, 4, 6>();
  if constexpr (kRowTiles == 2) add_bf16<2, 5, 6>();
  if (panels == 1) return;
  load<7>(w + w_stride, 64);
  add_bf16<1, 4, 7>();
  if constexpr (kRowTiles == 2) add_bf16<3, 5, 7>();
  if (kRowTiles == 2 || panels == 2) return;
  load<6>(w + 2 * w_stride, 64);
  add_bf16<2, 4, 6>();
  if (panels == 3) return;
  load<7>(w + 3 * w_stride, 64);
  add_bf16<3, 4, 7>();
}

template <int T>
void store_tile(const GemmBf16Args& p, int64_t row, int64_t rows, int64_t panel) {
  float* c = p.c + row * p.c_stride + panel * 16;
  const int64_t n = p.n - panel * 16;
  if (n >= 16) return store<T>(c, p.c_stride * 4);
  alignas(64) float all[kRows][16];
  store<T>(all, 64);
  for (int64_t i = 0; i < rows; ++i) store_upto(c + i * p.c_stride, n, _mm512_load_ps(all[i]));
}

/// `rows` <= 16 * kRowTiles rows, as configured, times `panels` <= 4 / kRowTiles panels.
template <int kRowTiles>
void tile(const GemmBf16Args& p, int64_t row, int64_t rows, int64_t panel, int64_t panels) {
  const std::uint16_t* a = p.a + row * p.a_stride;
  const std::uint8_t* w = p.w + panel * p.panel_bytes;
  zero<0>();
  zero<1>();
  zero<2>();
  zero<3>();
  int64_t k = 0;
  for (; k + kStep <= p.k; k += kStep) step<kRowTiles>(a + k, p.a_stride, w + k * 32, p.panel_bytes, panels);
  if (k < p.k) {
    alignas(64) std::uint16_t last_a[2 * kRows][kStep] = {};
    alignas(64) std::uint8_t last_w[4][kStep * 32] = {};
    const auto left = static_cast<unsigned>(p.k - k);
    for (int64_t i = 0; i < rows; ++i) __builtin_memcpy(last_a[i], a + i * p.a_stride + k, left * 2);
    for (int64_t j = 0; j < panels; ++j)
      __builtin_memcpy(last_w[j], w + j * p.panel_bytes + k * 32, (left + 1) / 2 * 64);
    step<kRowTiles>(last_a[0], kStep, last_w[0], sizeof(last_w[0]), panels);
  }
  const int64_t first = min64(rows, kRows);
  store_tile<0>(p, row, first, panel);
  if (panels > 1) store_tile<1>(p, row, first, panel + 1);
  if constexpr (kRowTiles == 2) {
    store_tile<2>(p, row + kRows, rows - kRows, panel);
    if (panels > 1) store_tile<3>(p, row + kRows, rows - kRows, panel + 1);
  } else {
    if (panels > 2) store_tile<2>(p, row, first, panel + 2);
    if (panels > 3) store_tile<3>(p, row, first, panel + 3);
  }
}

/// Rows [begin, end), `rows` at a time, which divide them.
template <int kRowTiles>
void tiles_of(const GemmBf16Args& p, int64_t begin, int64_t end, int64_t rows) {
  constexpr int64_t kPanels = 4 / kRowTiles;
  configure(tile_config(rows));
  for (int64_t panel = 0; panel < p.panels; panel += kPanels)
    for (int64_t row = begin; row < end; row += rows)
      tile<kRowTiles>(p, row, rows, panel, min64(kPanels, p.panels - panel));
}

}  // namespace

void gemm_bf16(const GemmBf16Args& p) {
  constexpr int64_t kActivationBytes = 1024 * 1024;  // rows that stay in a 2 MB L2 while all panels pass
  constexpr int64_t kBoth = 2 * kRows;
  const int64_t chunk = max64(kBoth, kActivationBytes / (max64(p.k, 1) * 2) / kBoth * kBoth);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows), full = begin + (end - begin) / kBoth * kBoth, rest = end - full;
    if (full > begin) tiles_of<2>(p, begin, full, kBoth);
    if (rest > kRows) tiles_of<2>(p, full, end, rest);
    if (rest > 0 && rest <= kRows) tiles_of<1>(p, full, end, rest);
  }
  release();
}

}  // namespace millrace::kernels::MILLRACE_AMX
