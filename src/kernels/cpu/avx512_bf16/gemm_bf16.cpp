// The AVX-512 BF16 level: one kernel, its roof, and its table. vdpbf16ps adds the two products of a pair in its own way
// (subnormals count as 0), so its bits differ from the levels below, within the same bound.

#include "kernels/cpu/avx512/gemm_tiles.h"

namespace millrace::kernels {
namespace MILLRACE_AVX512 {
namespace {

/// bf16 panels, [k / 2][16][2].
struct DotPairs {
  using Args = GemmBf16Args;
  static constexpr int kRows = 6;
  static constexpr int64_t kStep = 2, kWeightBytes = 64;

  static __m512bh as_pairs(__m512i v) {
    __m512bh out;
    __builtin_memcpy(&out, &v, sizeof(out));
    return out;
  }

  template <int MR, int NR>
  [[gnu::always_inline]] static void multiply(const std::int32_t (&pair)[MR], const std::uint8_t* w, int64_t w_stride,
                                              __m512 (&f)[MR][NR]) {
    __m512bh weight[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) weight[j] = as_pairs(_mm512_load_si512(w + j * w_stride));
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m512bh x = as_pairs(_mm512_set1_epi32(pair[i]));
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) f[i][j] = _mm512_dpbf16_ps(f[i][j], x, weight[j]);
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

void dot_gemm_bf16(const GemmBf16Args& p) { float_gemm<DotPairs>(p); }

void dot_roof_bf16(const RoofArgs& p) {
  constexpr int kChains = 12;  // independent accumulators, as in ../avx512/roof.cpp
  __m512 acc[kChains];
  for (auto& x : acc) x = _mm512_set1_ps(1);
  const __m512bh a = DotPairs::as_pairs(_mm512_set1_epi32(0x3F803F80)), b = DotPairs::as_pairs(_mm512_set1_epi32(0));
  for (int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      acc[j] = _mm512_dpbf16_ps(acc[j], a, b);
      keep(acc[j]);
    }
  *p.operations = static_cast<double>(p.iterations) * kChains * 32 * 2;
}

}  // namespace
}  // namespace MILLRACE_AVX512

extern const KernelTable MILLRACE_AVX512_BF16_TABLE;
constinit const KernelTable MILLRACE_AVX512_BF16_TABLE = {.gemm_bf16 = MILLRACE_AVX512::dot_gemm_bf16,
                                                          .roof_bf16 = MILLRACE_AVX512::dot_roof_bf16};

}  // namespace millrace::kernels
