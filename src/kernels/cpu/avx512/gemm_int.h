#pragma once

// Integer weights on AVX-512 VNNI: register tiles of MR rows x NR panels. Every function is internal to the file that
// includes it (kernels/registry.h says why).
//
// vpdpbusd multiplies unsigned weights with signed activations. Codes are unsigned as they are, table values by a table
// that is 128 higher. The offset is taken back by the accumulators' start value, -offset * a_sum.
//
// A tile reads packed codes only where few rows share them. For many rows each chunk of two panels is turned into bytes
// and float scales once (gemm_wide.h), and one kernel serves all formats.

#include "kernels/cpu/avx512/gemm_wide.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

constexpr WideKind wide_kind(IntFormat f) { return {f.group, f.has_min}; }

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
  if constexpr (f.bits == 8) return _mm512_load_si512(w + (4 * high + s) * 64);
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
/// those of the low and of the high elements apart. Asks for the blocks at `ahead` (w_stride) on the way: all at once
/// they would stand in each other's way. Inlined, or acc would live in memory.
template <IntFormat kFormat, int MR, int NR, int kParts>
[[gnu::always_inline]] inline void dot(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                       const std::uint8_t* ahead, __m512i (&acc)[kParts][MR][NR]) {
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) {
    __m512i lo[NR], hi[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) {
      lo[j] = weights<kFormat>(s, 0, w + j * w_stride);
      hi[j] = weights<kFormat>(s, 1, w + j * w_stride);
#pragma GCC unroll 2
      for (int line = s; line < kFormat.bits; line += 4)
        _mm_prefetch(reinterpret_cast<const char*>(ahead + j * w_stride + line * 64), _MM_HINT_T0);
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

inline __m512i widen_bytes(__m256i v) { return _mm512_cvtepi8_epi16(v); }

/// Sixteen signed bytes as floats.
inline __m512 bytes_to_floats(const std::uint8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m512i twice = widen_bytes(join(_mm_unpacklo_epi8(v, v), _mm_unpackhi_epi8(v, v)));
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(twice, 16));
}

/// The scales of block b of the panel at `scales`.
template <IntFormat kFormat>
[[gnu::always_inline]] inline BlockScales load_scales(const std::uint8_t* scales, const IntPanel& at, int64_t b) {
  constexpr IntFormat f = kFormat;
  BlockScales out;
  const int64_t half = (f.super ? b / 8 : b) * 32;
  out.d = F16::load16(reinterpret_cast<const std::uint16_t*>(scales + half));
  if constexpr (f.has_min) out.m = F16::load16(reinterpret_cast<const std::uint16_t*>(scales + at.mins + half));
  if constexpr (f.super && f.group == 32) {
    out.d = _mm512_mul_ps(out.d, bytes_to_floats(scales + at.group_scales + b * 16));
    if constexpr (f.has_min) out.m = _mm512_mul_ps(out.m, bytes_to_floats(scales + at.group_mins + b * 16));
  }
  if constexpr (f.group == 16) {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + at.group_scales + b * 32));
    if constexpr (shares_scale_byte(f)) {
      const __m256i low = _mm256_set1_epi8(15);
      out.mins = widen_bytes(_mm256_and_si256(_mm256_srli_epi16(v, 4), low));
      v = _mm256_and_si256(v, low);
    }
    const __m512i pairs = widen_bytes(v), halves[2] = {_mm512_slli_epi32(pairs, 16), pairs};
    for (int h = 0; h < 2; ++h) {
      out.group[h] = _mm512_cvtepi32_ps(_mm512_srai_epi32(halves[h], 16));
      out.back[h] = _mm512_mul_ps(out.group[h], _mm512_set1_ps(-kFloatBias));
    }
  }
  return out;
}

/// What blocks [begin, end) of a row bring to every product with it; end <= begin + kChunkBlocks.
template <IntFormat kFormat>
void prepare(const GemmIntArgs& p, int64_t row, int64_t begin, int64_t end, RowBlocks& out) {
  const __m512i bias = _mm512_set1_epi32(kIntBias), offset = _mm512_set1_epi32(unsigned_offset(kFormat));
  const float* scales = p.a_scale + row * p.blocks + begin;
  const float* pairs = reinterpret_cast<const float*>(p.a_sum) + row * p.blocks + begin;  // of int16, one a block
  for (int64_t b = 0; b < end - begin; b += 16) {
    const __m512 scale = load_upto(scales + b, end - begin - b);
    const __m512i pair = _mm512_castps_si512(load_upto(pairs + b, end - begin - b));
    const __m512i low = _mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16), high = _mm512_srai_epi32(pair, 16);
    const __m512i sum = _mm512_add_epi32(low, high);
    const auto start = [&](__m512i of) { return _mm512_sub_epi32(bias, _mm512_mullo_epi32(offset, of)); };
    _mm512_storeu_si512(out.start[0] + b, start(kFormat.group == 16 ? low : sum));
    if constexpr (kFormat.group == 16) _mm512_storeu_si512(out.start[1] + b, start(high));
    _mm512_storeu_ps(out.scale + b, scale);
    _mm512_storeu_ps(out.back + b, _mm512_mul_ps(scale, _mm512_set1_ps(-kFloatBias)));
    if constexpr (kFormat.has_min && kFormat.group == 32)
      _mm512_storeu_ps(out.sum + b, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale));
    if constexpr (kFormat.has_min && kFormat.group == 16) _mm512_storeu_si512(out.pair + b, pair);
  }
}

/// Blocks [begin, end) of few rows. `rows`: p.rows of the first chunk of kChunkBlocks, then of the next.
struct Few {
  const GemmIntArgs& p;
  const RowBlocks* rows;
  int64_t begin, end;
};

/// Codes are unpacked in registers. Memory is asked ahead by what a block of many rows leaves time for, across page
/// ends, where the hardware stops, and past a panel's end in the panel that its place in the tile has next.
template <IntFormat kFormat, int MR, int NR>
[[gnu::noinline]] void tile(const Few& x, int64_t row, int64_t panel) {
  constexpr IntFormat f = kFormat;
  const GemmIntArgs& p = x.p;
  constexpr int kBlockBytes = f.bits * 64, kParts = f.group == 16 ? 2 : 1;
  constexpr int kAhead = (MR > 2 ? 4096 : 2048) / kBlockBytes;
  const IntPanel at = int_panel(f, p.blocks, 16);
  const int64_t k = p.blocks * 32;
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  const std::uint8_t* data = scales + at.data + x.begin * kBlockBytes;
  const std::int8_t* a = p.a + row * k + x.begin * 32;
  const RowBlocks* rows = x.rows + row;
  float* c = p.c + row * p.c_stride + panel * 16;
  const int64_t n = p.n - panel * 16;

  __m512 acc_f[MR][NR];
  load_tile(c, p.c_stride, n, x.begin == 0, acc_f);

  for (int64_t chunk = x.begin; chunk < x.end; chunk += kChunkBlocks, rows += p.rows)
    for (int64_t b = chunk; b < min64(chunk + kChunkBlocks, x.end); ++b, a += 32, data += kBlockBytes) {
      __m512i acc[kParts][MR][NR];
      start_sums<f.group>(rows, b - chunk, acc);
      const std::uint8_t* ahead = data + kAhead * kBlockBytes + (b + kAhead < p.blocks ? 0 : (NR - 1) * p.panel_bytes);
      dot<kFormat, MR, NR, kParts>(a, k, data, p.panel_bytes, ahead, acc);
      BlockScales of[NR];
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) of[j] = load_scales<kFormat>(scales + j * p.panel_bytes, at, b);
      add_scaled<wide_kind(f)>(rows, b - chunk, acc, of, acc_f);
    }
  store_tile(c, p.c_stride, n, acc_f);
}

/// MR rows times `count` <= 4 neighbouring panels.
template <IntFormat kFormat, int MR>
void tiles(const Few& x, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR == 1) {
    if (count == 4) return tile<kFormat, MR, 4>(x, row, panel);
  }
  for (; count >= 2; count -= 2, panel += 2) tile<kFormat, MR, 2>(x, row, panel);
  if (count == 1) tile<kFormat, MR, 1>(x, row, panel);
}

template <IntFormat kFormat>
void few_rows(const GemmIntArgs& p) {
  constexpr int kChunks = 16;
  RowBlocks rows[kChunks * (kLeastWideRows - 1)];
  for (int64_t begin = 0; begin < p.blocks; begin += kChunks * kChunkBlocks) {
    const int64_t end = min64(begin + kChunks * kChunkBlocks, p.blocks);
    RowBlocks* next = rows;
    for (int64_t b = begin; b < end; b += kChunkBlocks)
      for (int64_t row = 0; row < p.rows; ++row) prepare<kFormat>(p, row, b, min64(b + kChunkBlocks, end), *next++);
    const Few few{p, rows, begin, end};
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = 0;
      if constexpr (kFormat.group == 32)
        for (; row + 8 <= p.rows; row += 8) tiles<kFormat, 8>(few, row, panel, count);
      for (; row + 4 <= p.rows; row += 4) tiles<kFormat, 4>(few, row, panel, count);
      if (row + 2 <= p.rows) tiles<kFormat, 2>(few, row, panel, count), row += 2;
      if (row < p.rows) tiles<kFormat, 1>(few, row, panel, count);
    }
  }
}

template <IntFormat kFormat>
[[gnu::always_inline]] inline void store_scales(const BlockScales& of, WideScales& wide) {
  constexpr IntFormat f = kFormat;
  _mm512_store_ps(wide.d, of.d);
  if constexpr (f.has_min) _mm512_store_ps(wide.m, of.m);
  if constexpr (f.group == 16) {
    for (int h = 0; h < 2; ++h) _mm512_store_ps(wide.group[h], of.group[h]), _mm512_store_ps(wide.back[h], of.back[h]);
    if constexpr (f.has_min) _mm512_store_si512(wide.mins, of.mins);
  }
}

/// Blocks [begin, end) of a panel, as bytes and float scales. Codes of 8 bits stay where they are.
template <IntFormat kFormat>
void widen(const GemmIntArgs& p, int64_t panel, int64_t begin, int64_t end, int to, WideWeights& out) {
  constexpr IntFormat f = kFormat;
  const IntPanel at = int_panel(f, p.blocks, 16);
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  for (int64_t b = begin; b < end; ++b) {
    const std::uint8_t* data = scales + at.data + b * f.bits * 64;
    std::uint8_t* bytes = out.memory[to][b - begin];
    if (b == begin) out.bytes[to] = f.bits == 8 ? data : bytes;
    if constexpr (f.bits != 8)
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) {
        _mm512_store_si512(bytes + s * 64, weights<f>(s, 0, data));
        _mm512_store_si512(bytes + (4 + s) * 64, weights<f>(s, 1, data));
      }
    store_scales<f>(load_scales<f>(scales, at, b), out.scales[to][b - begin]);
  }
}

/// What widen does to two panels, by a tile of the first MR rows of x on its way through them: its products hide the
/// stores. Asks for `ask` bytes of the next weights with each block.
template <IntFormat kFormat, int MR>
[[gnu::noinline]] void widen_tile(const GemmIntArgs& p, int64_t panel, int64_t begin, const WideArgs& x, int64_t ask,
                                  WideWeights& out) {
  constexpr IntFormat f = kFormat;
  constexpr int NR = 2, kBlockBytes = f.bits * 64;
  const IntPanel at = int_panel(f, p.blocks, 16);
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  const std::uint8_t* data = scales + at.data + begin * kBlockBytes;
  const std::int8_t* a = x.a;
  for (int j = 0; j < NR; ++j) out.bytes[j] = out.memory[j][0];
  __m512 acc_f[MR][NR];
  load_tile(x.c, x.c_stride, x.n, x.first, acc_f);

  int64_t asked = 0;
  for (int64_t b = 0; b < x.blocks; ++b, a += 32, data += kBlockBytes) {
    for (const int64_t stop = min64(asked + ask, x.next_bytes); asked < stop; asked += 64)
      for (int j = 0; j < NR; ++j)
        _mm_prefetch(reinterpret_cast<const char*>(x.next + j * x.next_stride + asked), _MM_HINT_T1);
    __m512i acc[1][MR][NR];
    start_sums<32>(x.rows, b, acc);
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) {
      __m512i w[NR];
#pragma GCC unroll 2
      for (int j = 0; j < NR; ++j) {
        w[j] = weights<f>(s % 4, s / 4, data + j * p.panel_bytes);
        _mm512_store_si512(out.memory[j][b] + s * 64, w[j]);
      }
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m512i v = broadcast4(a + i * x.k + 4 * s);
#pragma GCC unroll 2
        for (int j = 0; j < NR; ++j) acc[0][i][j] = _mm512_dpbusd_epi32(acc[0][i][j], w[j], v);
      }
    }
    BlockScales of[NR];
#pragma GCC unroll 2
    for (int j = 0; j < NR; ++j) {
      of[j] = load_scales<f>(scales + j * p.panel_bytes, at, begin + b);
      store_scales<f>(of[j], out.scales[j][b]);
    }
    add_scaled<wide_kind(f)>(x.rows, b, acc, of, acc_f);
  }
  store_tile(x.c, x.c_stride, x.n, acc_f);
}

/// The first of a chunk's tiles of kTileRows rows or fewer, by widen_tile: x becomes what is left of the chunk.
template <IntFormat kFormat, int kTileRows>
void widen_by_first_tile(const GemmIntArgs& p, int64_t panel, int64_t begin, WideArgs& x, WideWeights& out) {
  const int64_t tiles = (x.row_count + kTileRows - 1) / kTileRows, rows = x.row_count / tiles,
                blocks = tiles * x.blocks;
  const int64_t step = (x.next_bytes / 64 + blocks - 1) / blocks * 64;
  switch (kTileRows - rows) {
    case 0:
      widen_tile<kFormat, kTileRows>(p, panel, begin, x, step, out);
      break;
    case 1:
      widen_tile<kFormat, kTileRows - 1>(p, panel, begin, x, step, out);
      break;
    default:
      widen_tile<kFormat, kTileRows - 2>(p, panel, begin, x, step, out);
      break;
  }
  const int64_t asked = min64(x.next_bytes, step * x.blocks);
  x.a += rows * x.k, x.rows += rows, x.row_count -= rows, x.c += rows * x.c_stride;
  x.next += asked, x.next_bytes -= asked;
}

inline void ask(const std::uint8_t* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T1);
}

/// Asks for the scales of blocks [begin, end) of a panel. (Their codes come along with the products: multiply_wide.)
template <IntFormat kFormat>
void ask_scales(const GemmIntArgs& p, int64_t panel, int64_t begin, int64_t end) {
  constexpr IntFormat f = kFormat;
  constexpr int64_t kShared = f.super ? 8 : 1, kGroup = f.group == 16 ? 32 : 16;
  const IntPanel at = int_panel(f, p.blocks, 16);
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  const int64_t half = begin / kShared * 32, halves = (end - begin + kShared - 1) / kShared * 32;
  ask(scales + half, halves);
  if constexpr (f.has_min) ask(scales + at.mins + half, halves);
  if constexpr (f.super) ask(scales + at.group_scales + begin * kGroup, (end - begin) * kGroup);
  if constexpr (f.super && f.has_min && !shares_scale_byte(f))
    ask(scales + at.group_mins + begin * kGroup, (end - begin) * kGroup);
}

/// p.rows and the rows of every call of `multiply` are multiples of `unit`, which divides kMostWideRows. kTileRows:
/// rows of its tiles, where the first one may widen the weights; 0: it wants bytes.
template <IntFormat kFormat, int kTileRows = 0>
void many_rows(const GemmIntArgs& p, void (*multiply)(WideKind, const WideArgs&), int64_t unit) {
  RowBlocks rows[kMostWideRows];
  WideWeights weights;
  const int64_t k = p.blocks * 32;
  const int64_t parts = (p.rows + kMostWideRows - 1) / kMostWideRows;  // of equal size, so that none is a few rows
  for (int64_t part = 0; part < parts; ++part) {
    const auto begin_of = [&](int64_t i) { return i * (p.rows / unit) / parts * unit; };
    const int64_t first = begin_of(part), count = begin_of(part + 1) - first;
    // Few rows leave less time to bring the next bytes to L1 than many take to load and store sums once more.
    const int64_t chunk = count < 64 ? kChunkBlocks / 2 : kChunkBlocks;
    for (int64_t begin = 0; begin < p.blocks; begin += chunk) {
      const int64_t end = min64(begin + chunk, p.blocks);
      for (int64_t i = 0; i < count; ++i) prepare<kFormat>(p, first + i, begin, end, rows[i]);
      for (int64_t panel = 0; panel < p.panels; panel += 2) {
        const int panels = panel + 2 <= p.panels ? 2 : 1;
        for (int64_t j = panel + 2; j < min64(panel + 4, p.panels); ++j) ask_scales<kFormat>(p, j, begin, end);
        const std::uint8_t* next = p.w + (panel + 2) * p.panel_bytes + int_panel(kFormat, p.blocks, 16).data;
        WideArgs args{p.a + first * k + begin * 32,
                      k,
                      rows,
                      count,
                      end - begin,
                      &weights,
                      panels,
                      p.c + first * p.c_stride + panel * 16,
                      p.c_stride,
                      p.n - panel * 16,
                      begin == 0,
                      next + begin * kFormat.bits * 64,
                      p.panel_bytes,
                      panel + 2 < p.panels ? (end - begin) * kFormat.bits * 64 : 0};
        if constexpr (kTileRows > 0 && kFormat.group == 32 && kFormat.bits < 8) {
          if (panels == 2) {
            widen_by_first_tile<kFormat, kTileRows>(p, panel, begin, args, weights);
            multiply(wide_kind(kFormat), args);
            continue;
          }
        }
        for (int j = 0; j < panels; ++j) widen<kFormat>(p, panel + j, begin, end, j, weights);
        multiply(wide_kind(kFormat), args);
      }
    }
  }
}

template <IntFormat kFormat>
void gemm(const GemmIntArgs& p) {
  p.rows < kLeastWideRows ? few_rows<kFormat>(p) : many_rows<kFormat, kWideTileRows>(p, multiply_wide, 1);
}

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AVX512
