// Float weights on AVX-512: one chain of fused multiply-adds per output element. 6 x 4 tiles: 24 chains, where latency
// (4) times throughput (2 per cycle) asks for 8, so that a weight vector is loaded once for six rows.

#include "kernels/cpu/avx512/gemm_tiles.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

/// f32 and f16 panels: [k][16].
template <class T>
struct Plain {
  using Args = GemmFloatArgs;
  static constexpr int kRows = 6;
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
  static constexpr int kRows = 4;
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

}  // namespace

void gemm_f32(const GemmFloatArgs& p) { float_gemm<Plain<F32>>(p); }
void gemm_f16(const GemmFloatArgs& p) { float_gemm<Plain<F16>>(p); }
void gemm_bf16(const GemmBf16Args& p) { float_gemm<Pairs>(p); }

}  // namespace millrace::kernels::MILLRACE_AVX512
