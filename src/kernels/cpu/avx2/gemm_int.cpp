// Integer weights on AVX2: register tiles of MR rows x NR panels.
//
// 4-bit weights are unsigned, so vpmaddubsw takes them as they are, and its 16-bit pair sums of a whole block fit in 16
// bits: 8 groups * 2 products * 15 * 127 = 30480. One vpmaddwd a block widens them. 8-bit weights go as |w| against
// activations with w's sign: |-128| is 128 as an unsigned byte, and a pair's 2 * 128 * 127 = 32512 fits, but not two
// of them, so each is widened at once.

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/vec.h"

namespace millrace::kernels::avx2 {
namespace {

enum class Format { q4_0, q4_1, q8_0 };

__m256i broadcast4(const std::int8_t* p) {
  return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(p)));
}

/// Has v computed here. Left alone, GCC 12 delays a block's additions to its end and spills every product until then:
/// half the speed.
[[gnu::always_inline]] inline void settle(__m256i& v) { asm("" : "+x"(v)); }

__m256i load32(const std::uint8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }

/// acc = exact dot products of one block: MR rows of `a` (stride a_stride), NR panels' data at `w` (stride w_stride).
/// Inlined, or acc would live in memory.
template <int MR, int NR>
[[gnu::always_inline]] inline void dot4(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                        __m256i (&acc)[MR][NR]) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) {
    __m256i lo[NR], hi[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      __m256i q = load32(w + j * w_stride + s * 32);
      settle(q);
      lo[j] = _mm256_and_si256(q, low);
      hi[j] = _mm256_and_si256(_mm256_srli_epi16(q, 4), low);
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256i x = broadcast4(a + i * a_stride + 4 * s), y = broadcast4(a + i * a_stride + 16 + 4 * s);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) {
        const __m256i first = _mm256_maddubs_epi16(lo[j], x);
        acc[i][j] =
            _mm256_add_epi16(s == 0 ? first : _mm256_add_epi16(acc[i][j], first), _mm256_maddubs_epi16(hi[j], y));
        settle(acc[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) acc[i][j] = _mm256_madd_epi16(acc[i][j], _mm256_set1_epi16(1));
}

template <int MR, int NR>
[[gnu::always_inline]] inline void dot8(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w, int64_t w_stride,
                                        __m256i (&acc)[MR][NR]) {
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s) {
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      const __m256i q = load32(w + j * w_stride + s * 32), magnitude = _mm256_abs_epi8(q);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m256i signed_a = _mm256_sign_epi8(broadcast4(a + i * a_stride + 4 * s), q);
        const __m256i dot = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, signed_a), ones);
        acc[i][j] = s == 0 ? dot : _mm256_add_epi32(acc[i][j], dot);
        settle(acc[i][j]);
      }
    }
  }
}

template <Format kFormat, int MR, int NR>
[[gnu::noinline]] void tile(const GemmIntArgs& p, int64_t row, int64_t panel) {
  constexpr int kBlockBytes = kFormat == Format::q8_0 ? 256 : 128;
  const int64_t k = p.blocks * 32;
  const std::uint8_t* scales = p.w + panel * p.panel_bytes;
  const std::uint8_t* mins = scales + p.blocks * 16;
  const std::uint8_t* data = scales + (p.blocks * (kFormat == Format::q4_1 ? 32 : 16) + 63) / 64 * 64;
  const std::int8_t* a = p.a + row * k;
  const float* a_scale = p.a_scale + row * p.blocks;
  const std::int32_t* a_sum = p.a_sum + row * p.blocks;

  __m256 f[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) f[i][j] = _mm256_setzero_ps();

  for (int64_t b = 0; b < p.blocks; ++b) {
    __m256i acc[MR][NR];
    if constexpr (kFormat == Format::q8_0)
      dot8<MR, NR>(a + b * 32, k, data, p.panel_bytes, acc);
    else
      dot4<MR, NR>(a + b * 32, k, data, p.panel_bytes, acc);
    if constexpr (MR == 1) {  // one row waits for memory: ask ahead, across the page ends where the hardware stops
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j)
#pragma GCC unroll 4
        for (int line = 0; line < kBlockBytes; line += 64)
          _mm_prefetch(reinterpret_cast<const char*>(data + j * p.panel_bytes + 1024 + line), _MM_HINT_T0);
    }
    data += kBlockBytes;

    __m256 d[NR], m[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j) {
      d[j] = F16::load8(reinterpret_cast<const std::uint16_t*>(scales + j * p.panel_bytes + b * 16));
      if constexpr (kFormat == Format::q4_1)
        m[j] = F16::load8(reinterpret_cast<const std::uint16_t*>(mins + j * p.panel_bytes + b * 16));
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const __m256 scale = _mm256_broadcast_ss(a_scale + i * p.blocks + b);
      const __m256i sum = _mm256_set1_epi32(a_sum[i * p.blocks + b]);
      const __m256 offset = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) {
        if constexpr (kFormat == Format::q4_0) acc[i][j] = _mm256_sub_epi32(acc[i][j], _mm256_slli_epi32(sum, 3));
        f[i][j] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc[i][j]), scale), d[j], f[i][j]);
        if constexpr (kFormat == Format::q4_1) f[i][j] = _mm256_fmadd_ps(offset, m[j], f[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j)
      store_upto(p.c + (row + i) * p.c_stride + (panel + j) * 8, p.n - (panel + j) * 8, f[i][j]);
}

/// MR rows times `count` <= 4 neighbouring panels.
template <Format kFormat, int MR>
void tiles(const GemmIntArgs& p, int64_t row, int64_t panel, int64_t count) {
  if constexpr (MR == 1) {
    if (count == 4) return tile<kFormat, 1, 4>(p, row, panel);
  }
  for (; count >= 2; count -= 2, panel += 2) tile<kFormat, MR, 2>(p, row, panel);
  if (count == 1) tile<kFormat, MR, 1>(p, row, panel);
}

// 4 x 2 for many rows, 1 x 4 for one: the fastest of {1,2,3,4,6} x {1,2,3,4,8} on Zen 3 (bench/kernels_bench: q4_0 88 %
// of the vpmaddubsw + vpmaddwd loop; 4 x 1 79 %, 2 x 4 78 %).
template <Format kFormat>
void gemm(const GemmIntArgs& p) {
  constexpr int64_t kActivationBytes = 128 * 1024;  // rows that stay in a 512 KB L2 while all panels pass
  const int64_t chunk = max64(4, kActivationBytes / (p.blocks * 32) / 4 * 4);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = begin;
      for (; row + 4 <= end; row += 4) tiles<kFormat, 4>(p, row, panel, count);
      if (end - row == 3) tiles<kFormat, 3>(p, row, panel, count);
      if (end - row == 2) tiles<kFormat, 2>(p, row, panel, count);
      if (end - row == 1) tiles<kFormat, 1>(p, row, panel, count);
    }
  }
}

}  // namespace

void gemm_q4_0(const GemmIntArgs& p) { gemm<Format::q4_0>(p); }
void gemm_q4_1(const GemmIntArgs& p) { gemm<Format::q4_1>(p); }
void gemm_q8_0(const GemmIntArgs& p) { gemm<Format::q8_0>(p); }

}  // namespace millrace::kernels::avx2
