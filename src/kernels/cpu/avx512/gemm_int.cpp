// Integer weights on AVX-512 VNNI: register tiles of MR rows x NR panels.
//
// vpdpbusd multiplies unsigned weights with signed activations. Nibbles are unsigned as they are, 8-bit weights become
// so by flipping their top bit (+128); either offset is taken back by the accumulators' start value, -offset * a_sum.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

enum class Format { q4_0, q4_1, q8_0 };

constexpr int offset_of(Format f) { return f == Format::q4_0 ? 8 : f == Format::q8_0 ? 128 : 0; }

__m512i broadcast4(const std::int8_t* p) {
  int x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}

/// acc += dot products of one block: MR rows of `a` (stride a_stride), NR panels' data at `w` (stride w_stride).
/// Inlined, or acc would live in memory.
template <Format kFormat, int MR, int NR>
[[gnu::always_inline]] inline void dot(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                       __m512i (&acc)[MR][NR]) {
  constexpr bool k4Bit = kFormat != Format::q8_0;
  const __m512i low = _mm512_set1_epi8(15), top = _mm512_set1_epi8(-128);
#pragma GCC unroll 8
  for (int s = 0; s < (k4Bit ? 4 : 8); ++s) {
    __m512i lo[NR], hi[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) {
      const __m512i q = _mm512_load_si512(w + j * w_stride + s * 64);
      lo[j] = k4Bit ? _mm512_and_si512(q, low) : _mm512_xor_si512(q, top);
      hi[j] = k4Bit ? _mm512_and_si512(_mm512_srli_epi16(q, 4), low) : q;
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m512i x = broadcast4(a + i * a_stride + 4 * s);
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) acc[i][j] = _mm512_dpbusd_epi32(acc[i][j], lo[j], x);
      if constexpr (k4Bit) {
        const __m512i y = broadcast4(a + i * a_stride + 16 + 4 * s);
#pragma GCC unroll 4
        for (int j = 0; j < NR; ++j) acc[i][j] = _mm512_dpbusd_epi32(acc[i][j], hi[j], y);
      }
    }
  }
}

template <Format kFormat, int MR, int NR>
[[gnu::noinline]] void tile(const GemmIntArgs& p, int64_t row, int64_t panel) {
  constexpr int kBlockBytes = kFormat == Format::q8_0 ? 512 : 256;
  const int64_t k = p.blocks * 32;
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  const std::uint8_t* mins = scales + p.blocks * 32;
  const std::uint8_t* data = scales + (p.blocks * (kFormat == Format::q4_1 ? 64 : 32) + 63) / 64 * 64;
  const std::int8_t* a = p.a + row * k;
  const float* a_scale = p.a_scale + row * p.blocks;
  const std::int32_t* a_sum = p.a_sum + row * p.blocks;

  __m512 f[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) f[i][j] = _mm512_setzero_ps();

  for (int64_t b = 0; b < p.blocks; ++b) {
    __m512i acc[MR][NR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) acc[i][j] = _mm512_set1_epi32(-offset_of(kFormat) * a_sum[i * p.blocks + b]);
    dot<kFormat, MR, NR>(a + b * 32, k, data, p.panel_bytes, acc);
    if constexpr (MR == 1) {  // one row waits for memory: ask ahead, across the page ends where the hardware stops
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j)
#pragma GCC unroll 8
        for (int line = 0; line < kBlockBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(data + j * p.panel_bytes + 2048 + line), _MM_HINT_T0);
    }
    data += kBlockBytes;

    __m512 d[NR], m[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) {
      d[j] = F16::load16(reinterpret_cast<const std::uint16_t*>(scales + j * p.panel_bytes + b * 32));
      if constexpr (kFormat == Format::q4_1)
        m[j] = F16::load16(reinterpret_cast<const std::uint16_t*>(mins + j * p.panel_bytes + b * 32));
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      // The accumulator times the row's scale first, then the weight's: multiplying the scales first costs 20 %
      // (study).
      const __m512 scale = _mm512_set1_ps(a_scale[i * p.blocks + b]);
      const __m512 offset = _mm512_mul_ps(_mm512_set1_ps(static_cast<float>(a_sum[i * p.blocks + b])), scale);
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) {
        f[i][j] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(acc[i][j]), scale), d[j], f[i][j]);
        if constexpr (kFormat == Format::q4_1) f[i][j] = _mm512_fmadd_ps(offset, m[j], f[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j)
      store_upto(p.c + (row + i) * p.c_stride + (panel + j) * 16, p.n - (panel + j) * 16, f[i][j]);
}

/// MR rows times `count` <= 4 neighbouring panels.
template <Format kFormat, int MR>
void tiles(const GemmIntArgs& p, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR <= 2) {
    if (count == 4) return tile<kFormat, MR, 4>(p, row, panel);
  }
  for (; count >= 2; count -= 2, panel += 2) tile<kFormat, MR, 2>(p, row, panel);
  if (count == 1) tile<kFormat, MR, 1>(p, row, panel);
}

// 6 x 2: the best exact-scale tile of the study (0.75 of the INT8 roof on Zen 5), with 4 x 3.
template <Format kFormat>
void gemm(const GemmIntArgs& p) {
  constexpr int64_t kActivationBytes = 256 * 1024;  // rows that stay in L2 while all panels pass
  const int64_t chunk = max64(6, kActivationBytes / (p.blocks * 32) / 6 * 6);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = begin;
      for (; row + 6 <= end; row += 6) tiles<kFormat, 6>(p, row, panel, count);
      if (end - row >= 4) tiles<kFormat, 4>(p, row, panel, count), row += 4;
      if (end - row >= 2) tiles<kFormat, 2>(p, row, panel, count), row += 2;
      if (end - row == 1) tiles<kFormat, 1>(p, row, panel, count);
    }
  }
}

}  // namespace

void gemm_q4_0(const GemmIntArgs& p) { gemm<Format::q4_0>(p); }
void gemm_q4_1(const GemmIntArgs& p) { gemm<Format::q4_1>(p); }
void gemm_q8_0(const GemmIntArgs& p) { gemm<Format::q8_0>(p); }

}  // namespace millrace::kernels::MILLRACE_AVX512
