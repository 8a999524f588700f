#pragma once

// Integer products with smmla, on the tiles of ../neon/gemm_int.h. Needs -march=armv8.2-a+dotprod+i8mm.

#include "kernels/cpu/neon/gemm_int.h"

namespace millrace::kernels::neon {
namespace {

/// smmla: two rows of activations times two rows of weights, eight products for each of the four sums. A panel keeps
/// four k-bytes of a row together (params.h), so two steps are zipped to get eight: one zip for each vector of weights,
/// shared by all rows of the tile. Panels with eight k-bytes side by side would do without, but would be a second
/// layout of every format; the sums would still have to be zipped back into rows, once a block.
struct Smmla {
  static constexpr int kRows = 4;

  /// As Sdot::add_products.
  template <IntFormat kFormat, int MR, int V>
  [[gnu::always_inline]] static void add_products(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
                                                  int64_t w_stride, int begin, int end, int32x4_t (&acc)[MR][V]) {
    static_assert(MR % 2 == 0);
    int32x4_t sum[MR / 2][V][2];  // [pair of rows][vector][its first or last two rows]: [row][row of weights]
#pragma GCC unroll 8
    for (int i = 0; i < MR / 2; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) sum[i][j][0] = sum[i][j][1] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int high = begin; high < end; ++high)
#pragma GCC unroll 2
      for (int s = 0; s < 4; s += 2) {
        int8x16_t x[MR / 2];
#pragma GCC unroll 8
        for (int i = 0; i < MR / 2; ++i) {
          const std::int8_t* from = a + 2 * i * a_stride + 16 * high + 4 * s;
          x[i] = vcombine_s8(vld1_s8(from), vld1_s8(from + a_stride));
        }
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) {
          const std::uint8_t* from = w + j / 2 * w_stride + j % 2 * 16;
          const int32x4_t q0 = vreinterpretq_s32_s8(weights<kFormat>(s, high, from));
          const int32x4_t q1 = vreinterpretq_s32_s8(weights<kFormat>(s + 1, high, from));
          const int8x16_t first = vreinterpretq_s8_s32(vzip1q_s32(q0, q1)),
                          last = vreinterpretq_s8_s32(vzip2q_s32(q0, q1));
#pragma GCC unroll 8
          for (int i = 0; i < MR / 2; ++i) {
            sum[i][j][0] = vmmlaq_s32(sum[i][j][0], x[i], first);
            sum[i][j][1] = vmmlaq_s32(sum[i][j][1], x[i], last);
          }
        }
      }
#pragma GCC unroll 8
    for (int i = 0; i < MR / 2; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) {
        const int64x2_t first = vreinterpretq_s64_s32(sum[i][j][0]), last = vreinterpretq_s64_s32(sum[i][j][1]);
        acc[2 * i][j] = vaddq_s32(acc[2 * i][j], vreinterpretq_s32_s64(vzip1q_s64(first, last)));
        acc[2 * i + 1][j] = vaddq_s32(acc[2 * i + 1][j], vreinterpretq_s32_s64(vzip2q_s64(first, last)));
      }
  }
};

}  // namespace
}  // namespace millrace::kernels::neon
