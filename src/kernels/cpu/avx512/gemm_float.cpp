// Float weights on AVX-512: one chain of fused multiply-adds per output element. Few rows read the panels as they are.
// Many rows go chunk by chunk of k over two panels at a time, which lie in L1 as f32, widened where they are not: 8 x 2
// tiles, 16 chains where latency (4) times throughput (2 per cycle) asks for 8.

#include "kernels/cpu/avx512/gemm_tiles.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

/// f32 and f16 panels: [k][16].
template <class T>
struct Plain {
  using Args = GemmFloatArgs;
  static constexpr int kRows = 2;  // fewer than kLeastWide come here
  static constexpr int64_t kStep = 1, kWeightBytes = 16 * sizeof(typename T::type);

  template <int MR, int NR>
  [[gnu::always_inline]] static void step(const float* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                          __m512 (&f)[MR][NR]) {
    __m512 weight[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) weight[j] = T::load16(reinterpret_cast<const typename T::type*>(w + j * w_stride));
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m512 x = _mm512_set1_ps(a[i * a_stride]);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) f[i][j] = _mm512_fmadd_ps(x, weight[j], f[i][j]);
    }
  }
  template <int MR, int NR>
  [[gnu::always_inline]] static void last(const float*, int64_t, const std::uint8_t*, int64_t, __m512 (&)[MR][NR]) {}
};

/// bf16 panels, [k / 2][16][2], without vdpbf16ps: both halves of a pair are widened by a shift and a mask.
struct Pairs {
  using Args = GemmBf16Args;
  static constexpr int kRows = 2;
  static constexpr int64_t kStep = 2, kWeightBytes = 64;

  template <int MR, int NR>
  [[gnu::always_inline]] static void multiply(const std::int32_t (&pair)[MR], const std::uint8_t* w, int64_t w_stride,
                                              __m512 (&f)[MR][NR]) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    __m512 first[NR], second[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      const __m512i q = _mm512_load_si512(w + j * w_stride);
      first[j] = _mm512_castsi512_ps(_mm512_slli_epi32(q, 16));
      second[j] = _mm512_castsi512_ps(_mm512_and_si512(q, upper));
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m512i x = _mm512_set1_epi32(pair[i]);
      const __m512 x0 = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                   x1 = _mm512_castsi512_ps(_mm512_and_si512(x, upper));
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) f[i][j] = _mm512_fmadd_ps(x1, second[j], _mm512_fmadd_ps(x0, first[j], f[i][j]));
    }
  }
  template <int MR, int NR>
  [[gnu::always_inline]] static void step(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                          int64_t w_stride, __m512 (&f)[MR][NR]) {
    std::int32_t pair[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) __builtin_memcpy(&pair[i], a + i * a_stride, 4);
    multiply(pair, w, w_stride, f);
  }
  /// The last pair of an odd k: its second value counts as 0.
  template <int MR, int NR>
  [[gnu::always_inline]] static void last(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                          int64_t w_stride, __m512 (&f)[MR][NR]) {
    std::int32_t pair[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) pair[i] = a[i * a_stride];
    multiply(pair, w, w_stride, f);
  }
};

constexpr int kChunk = 256;     // elements of k: two panels of them are 32 KB
constexpr int kLeastWide = 4;   // rows
constexpr int kMostWide = 192;  // rows whose chunk stays in L2

/// A chunk of rows, f32, times one of two panels. `next`, of the panels that come next: asked for along with each
/// element of k, `next_step` bytes apart.
struct Wide {
  const float* a;
  int64_t a_stride, count;
  const float* panels[2];
  float* c;
  int64_t c_stride, n;
  bool first;
  const std::uint8_t* next[2];
  int64_t next_step;
};

template <int MR, int NR>
[[gnu::noinline]] void wide_tile(const Wide& p, int64_t row) {
  const float* a = p.a + row * p.a_stride;
  float* c = p.c + row * p.c_stride;
  __m512 f[MR][NR];
  load_tile(c, p.c_stride, p.n, p.first, f);
  const float* w[NR];
  for (int j = 0; j < NR; ++j) w[j] = p.panels[j];
  const int64_t next_step = row == 0 ? p.next_step : 0;
  for (int64_t k = 0; k < p.count; ++k) {
    __m512 weight[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      weight[j] = _mm512_loadu_ps(w[j] + 16 * k);
      _mm_prefetch(reinterpret_cast<const char*>(p.next[j] + k * next_step), _MM_HINT_T1);
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m512 x = _mm512_set1_ps(a[i * p.a_stride + k]);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) f[i][j] = _mm512_fmadd_ps(x, weight[j], f[i][j]);
    }
  }
  store_tile(c, p.c_stride, p.n, f);
}

template <int MR>
void wide_rows(const Wide& p, int panels, int64_t row) {
  panels == 2 ? wide_tile<MR, 2>(p, row) : wide_tile<MR, 1>(p, row);
}

/// `count` bf16 values as f32.
void widen_row(const std::uint16_t* x, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += 16) store_upto(out + i, count - i, Bf16::load_first(x + i, count - i));
}

/// Elements [begin, end) of k of a panel as f32 [k][16]: the panel itself, or in `memory`.
const float* widened(F32*, const std::uint8_t* panel, int64_t begin, int64_t, float*) {
  return reinterpret_cast<const float*>(panel) + 16 * begin;
}
const float* widened(F16*, const std::uint8_t* panel, int64_t begin, int64_t end, float* memory) {
  const auto* w = reinterpret_cast<const std::uint16_t*>(panel);
  for (int64_t k = begin; k < end; ++k) _mm512_storeu_ps(memory + 16 * (k - begin), F16::load16(w + 16 * k));
  return memory;
}
const float* widened(Bf16*, const std::uint8_t* panel, int64_t begin, int64_t end, float* memory) {  // begin is even
  for (int64_t k = begin; k < end; k += 2) {
    const __m512i q = _mm512_load_si512(panel + k / 2 * 64);
    _mm512_storeu_ps(memory + 16 * (k - begin), _mm512_castsi512_ps(_mm512_slli_epi32(q, 16)));
    const __m512i second = _mm512_and_si512(q, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)));
    _mm512_storeu_ps(memory + 16 * (k - begin) + 16, _mm512_castsi512_ps(second));
  }
  return memory;
}

/// T: the panels' elements. Rows are f32, or bf16 where the panels are.
template <class T, class Args>
void many_rows(const Args& p) {
  constexpr bool kWidenRows = sizeof(*p.a) == 2;
  alignas(64) float panel_memory[2][16 * kChunk], row_memory[kWidenRows ? kMostWide * kChunk : 1];
  const int64_t parts = (p.rows + kMostWide - 1) / kMostWide;  // of equal size, so that none is a few rows
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * p.rows / parts, rows = (part + 1) * p.rows / parts - first;
    for (int64_t begin = 0; begin < p.k || begin == 0; begin += kChunk) {
      const int64_t count = min64(kChunk, p.k - begin);
      const float* a;
      int64_t a_stride = p.a_stride;
      if constexpr (kWidenRows) {
        for (int64_t i = 0; i < rows; ++i)
          widen_row(p.a + (first + i) * p.a_stride + begin, count, row_memory + i * kChunk);
        a = row_memory, a_stride = kChunk;
      } else {
        a = p.a + first * p.a_stride + begin;
      }
      const int64_t step = sizeof(typename T::type) * 16, offset = begin * step;
      for (int64_t panel = 0; panel < p.panels; panel += 2) {
        const int panels = panel + 2 <= p.panels ? 2 : 1;
        Wide wide{a,          a_stride,         count,      {}, p.c + first * p.c_stride + panel * 16,
                  p.c_stride, p.n - panel * 16, begin == 0, {}, step};
        for (int j = 0; j < panels; ++j) {
          const std::uint8_t* w = p.w + (panel + j) * p.panel_bytes;
          wide.panels[j] = widened(static_cast<T*>(nullptr), w, begin, begin + count, panel_memory[j]);
          wide.next[j] = w + offset + (panel + 2 < p.panels ? 2 * p.panel_bytes : 0);
        }
        const int64_t tiles = (rows + 7) / 8;  // of equal size: four rows or more
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t row = t * rows / tiles;
          switch ((t + 1) * rows / tiles - row) {
            case 8:
              wide_rows<8>(wide, panels, row);
              break;
            case 7:
              wide_rows<7>(wide, panels, row);
              break;
            case 6:
              wide_rows<6>(wide, panels, row);
              break;
            case 5:
              wide_rows<5>(wide, panels, row);
              break;
            default:
              wide_rows<4>(wide, panels, row);
              break;
          }
        }
      }
    }
  }
}

}  // namespace

void gemm_f32(const GemmFloatArgs& p) { p.rows < kLeastWide ? float_gemm<Plain<F32>>(p) : many_rows<F32>(p); }
void gemm_f16(const GemmFloatArgs& p) { p.rows < kLeastWide ? float_gemm<Plain<F16>>(p) : many_rows<F16>(p); }
void gemm_bf16(const GemmBf16Args& p) { p.rows < kLeastWide ? float_gemm<Pairs>(p) : many_rows<Bf16>(p); }

}  // namespace millrace::kernels::MILLRACE_AVX512
