// Float weights on NEON: register tiles of MR rows x NR panels, one chain of fused multiply-adds per element. A panel
// of 8 rows is two vectors, so 4 x 2 for many rows and 1 x 4 for one are 16 and 8 chains.

#include "kernels/cpu/neon/kernels.h"
#include "kernels/cpu/neon/vec.h"

namespace millrace::kernels::neon {
namespace {

/// f32 and f16 panels: [k][8].
template <class T>
struct Plain {
  using Args = GemmFloatArgs;
  static constexpr int64_t kStep = 1, kWeightBytes = 8 * sizeof(typename T::type);

  template <int MR, int V>
  [[gnu::always_inline]] static void step(const float* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                          float32x4_t (&f)[MR][V]) {
    float32x4_t weight[V];
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j)
      weight[j] = T::load4(reinterpret_cast<const typename T::type*>(w + j / 2 * w_stride) + j % 2 * 4);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const float x = a[i * a_stride];
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) f[i][j] = vfmaq_n_f32(f[i][j], weight[j], x);
    }
  }
  template <int MR, int V>
  [[gnu::always_inline]] static void last(const float*, int64_t, const std::uint8_t*, int64_t, float32x4_t (&)[MR][V]) {
  }
};

/// bf16 panels: [k / 2][8][2].
struct Pairs {
  using Args = GemmBf16Args;
  static constexpr int64_t kStep = 2, kWeightBytes = 32;

  static float widen(std::uint16_t x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
    float out;
    __builtin_memcpy(&out, &bits, 4);
    return out;
  }

  /// kOdd: the last pair of an odd k: its second value counts as 0.
  template <bool kOdd, int MR, int V>
  [[gnu::always_inline]] static void multiply(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                              int64_t w_stride, float32x4_t (&f)[MR][V]) {
    const uint32x4_t upper = vdupq_n_u32(0xFFFF0000);
    float32x4_t first[V], second[V];
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      const uint32x4_t q = vld1q_u32(reinterpret_cast<const std::uint32_t*>(w + j / 2 * w_stride + j % 2 * 16));
      first[j] = vreinterpretq_f32_u32(vshlq_n_u32(q, 16));
      second[j] = vreinterpretq_f32_u32(vandq_u32(q, upper));
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const float x0 = widen(a[i * a_stride]), x1 = kOdd ? 0.0f : widen(a[i * a_stride + 1]);
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) f[i][j] = vfmaq_n_f32(vfmaq_n_f32(f[i][j], first[j], x0), second[j], x1);
    }
  }
  template <int MR, int V>
  [[gnu::always_inline]] static void step(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                          int64_t w_stride, float32x4_t (&f)[MR][V]) {
    multiply<false>(a, a_stride, w, w_stride, f);
  }
  template <int MR, int V>
  [[gnu::always_inline]] static void last(const std::uint16_t* a, int64_t a_stride, const std::uint8_t* w,
                                          int64_t w_stride, float32x4_t (&f)[MR][V]) {
    multiply<true>(a, a_stride, w, w_stride, f);
  }
};

template <class Format, int MR, int NR>
[[gnu::noinline]] void tile(const typename Format::Args& p, int64_t row, int64_t panel) {
  constexpr int V = 2 * NR;
  const auto* a = p.a + row * p.a_stride;
  const std::uint8_t* w = p.w + panel * p.panel_bytes;
  float32x4_t f[MR][V];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) f[i][j] = vdupq_n_f32(0);
  int64_t k = 0;
  for (; k + Format::kStep <= p.k; k += Format::kStep, w += Format::kWeightBytes)
    Format::template step<MR, V>(a + k, p.a_stride, w, p.panel_bytes, f);
  if (k < p.k) Format::template last<MR, V>(a + k, p.a_stride, w, p.panel_bytes, f);
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      const int64_t at = panel * 8 + j * 4;
      store_upto(p.c + (row + i) * p.c_stride + at, p.n - at, f[i][j]);
    }
}

template <class Format>
void gemm(const typename Format::Args& p) {
  constexpr int64_t kActivationBytes = 128 * 1024;  // rows that stay in L2 while all panels pass
  const int64_t chunk = max64(4, kActivationBytes / (max64(p.k, 1) * static_cast<int64_t>(sizeof(*p.a))) / 4 * 4);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = begin;
      for (; row + 4 <= end; row += 4) {
        int64_t j = 0;
        for (; j + 2 <= count; j += 2) tile<Format, 4, 2>(p, row, panel + j);
        if (j < count) tile<Format, 4, 1>(p, row, panel + j);
      }
      for (; row < end; ++row) {
        if (count == 4)
          tile<Format, 1, 4>(p, row, panel);
        else
          for (int64_t j = 0; j < count; ++j) tile<Format, 1, 1>(p, row, panel + j);
      }
    }
  }
}

}  // namespace

void gemm_f32(const GemmFloatArgs& p) { gemm<Plain<F32>>(p); }
void gemm_f16(const GemmFloatArgs& p) { gemm<Plain<F16>>(p); }
void gemm_bf16(const GemmBf16Args& p) { gemm<Pairs>(p); }

}  // namespace millrace::kernels::neon
