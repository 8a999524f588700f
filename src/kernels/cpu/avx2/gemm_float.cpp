// Float weights on AVX2: register tiles of MR rows x NR panels, one chain of fused multiply-adds per element. A chain
// waits 4 cycles for each step and two start per cycle, so a tile needs 8 chains: 6 x 2 for many rows, 1 x 8 for one.

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/vec.h"

namespace millrace::kernels::avx2 {
namespace {

/// f32 and f16 panels: [k][8].
template <class T>
struct Plain {
  using Args = GemmFloatArgs;
  static constexpr int64_t kStep = 1;  // values of k per step

  template <int MR, int NR>
  [[gnu::always_inline]] static void step(const float* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                          __m256 (&f)[MR][NR]) {
    __m256 weight[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) weight[j] = T::load8(reinterpret_cast<const typename T::type*>(w + j * w_stride));
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256 x = _mm256_broadcast_ss(a + i * a_stride);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) f[i][j] = _mm256_fmadd_ps(x, weight[j], f[i][j]);
    }
  }
  template <int MR, int NR>
  [[gnu::always_inline]] static void last(const float*, int64_t, const std::uint8_t*, int64_t, __m256 (&)[MR][NR]) {}
};

/// bf16 panels: [k / 2][8][2].
struct Pairs {
  using Args = GemmBf16Args;
  static constexpr int64_t kStep = 2;

  template <int MR, int NR>
  [[gnu::always_inline]] static void multiply(const std::int32_t (&pair)[MR], const std::uint8_t* w, int64_t w_stride,
                                              __m256 (&f)[MR][NR]) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
    __m256 first[NR], second[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      const __m256i q = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + j * w_stride));
      first[j] = _mm256_castsi256_ps(_mm256_slli_epi32(q, 16));
      second[j] = _mm256_castsi256_ps(_mm256_and_si256(q, upper));
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256i x = _mm256_set1_epi32(pair[i]);
      const __m256 x0 = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)),
                   x1 = _mm256_castsi256_ps(_mm256_and_si256(x, upper));
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) f[i][j] = _mm256_fmadd_ps(x1, second[j], _mm256_fmadd_ps(x0, first[j], f[i][j]));
    }
  }
  template <int MR, int NR>
  [[gnu::always_inline]] static void step(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                          int64_t w_stride, __m256 (&f)[MR][NR]) {
    std::int32_t pair[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) __builtin_memcpy(&pair[i], a + i * a_stride, 4);
    multiply(pair, w, w_stride, f);
  }
  /// The last pair of an odd k: its second value counts as 0.
  template <int MR, int NR>
  [[gnu::always_inline]] static void last(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                          int64_t w_stride, __m256 (&f)[MR][NR]) {
    std::int32_t pair[MR];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) pair[i] = a[i * a_stride];
    multiply(pair, w, w_stride, f);
  }
};

template <class Format, int kWeightBytes, int MR, int NR>
[[gnu::noinline]] void tile(const typename Format::Args& p, int64_t row, int64_t panel) {
  const auto* a = p.a + row * p.a_stride;
  const std::uint8_t* w = p.w + panel * p.panel_bytes;
  __m256 f[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) f[i][j] = _mm256_setzero_ps();
  int64_t k = 0;
  for (; k + Format::kStep <= p.k; k += Format::kStep, w += kWeightBytes)
    Format::template step<MR, NR>(a + k, p.a_stride, w, p.panel_bytes, f);
  if (k < p.k) Format::template last<MR, NR>(a + k, p.a_stride, w, p.panel_bytes, f);
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j)
      store_upto(p.c + (row + i) * p.c_stride + (panel + j) * 8, p.n - (panel + j) * 8, f[i][j]);
}

/// MR rows times `count` <= 8 neighbouring panels.
template <class Format, int kWeightBytes, int MR>
void tiles(const typename Format::Args& p, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR == 1) {
    if (count == 8) return tile<Format, kWeightBytes, 1, 8>(p, row, panel);
  }
  if constexpr (MR <= 2)
    for (; count >= 4; count -= 4, panel += 4) tile<Format, kWeightBytes, MR, 4>(p, row, panel);
  for (; count >= 2; count -= 2, panel += 2) tile<Format, kWeightBytes, MR, 2>(p, row, panel);
  if (count == 1) tile<Format, kWeightBytes, MR, 1>(p, row, panel);
}

template <class Format, int kWeightBytes>
void gemm(const typename Format::Args& p) {
  constexpr int64_t kActivationBytes = 128 * 1024;  // rows that stay in a 512 KB L2 while all panels pass
  const int64_t chunk = max64(6, kActivationBytes / (max64(p.k, 1) * static_cast<int64_t>(sizeof(*p.a))) / 6 * 6);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 8) {
      const int64_t count = min64(8, p.panels - panel);
      int64_t row = begin;
      for (; row + 6 <= end; row += 6) tiles<Format, kWeightBytes, 6>(p, row, panel, count);
      if (end - row >= 4) tiles<Format, kWeightBytes, 4>(p, row, panel, count), row += 4;
      if (end - row >= 2) tiles<Format, kWeightBytes, 2>(p, row, panel, count), row += 2;
      if (end - row == 1) tiles<Format, kWeightBytes, 1>(p, row, panel, count);
    }
  }
}

}  // namespace

void gemm_f32(const GemmFloatArgs& p) { gemm<Plain<F32>, 32>(p); }
void gemm_f16(const GemmFloatArgs& p) { gemm<Plain<F16>, 16>(p); }
void gemm_bf16(const GemmBf16Args& p) { gemm<Pairs, 32>(p); }

}  // namespace millrace::kernels::avx2
