// What is worth wider vectors between the matrix products: norm, activation rounding, SwiGLU. Bits as in
// generic/small.cpp.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

float sqrt_of(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

void norm_row(const float* x, const float* gain, float* out, int64_t dim, float eps) {
  __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();  // lanes 0..15 and 16..31; past the end they add +0
  for (int64_t i = 0; i < dim; i += 32) {
    const __m512 a = load_upto(x + i, dim - i);
    even = _mm512_fmadd_ps(a, a, even);
    if (i + 16 >= dim) break;
    const __m512 b = load_upto(x + i + 16, dim - i - 16);
    odd = _mm512_fmadd_ps(b, b, odd);
  }
  const float scale = 1.0f / sqrt_of(sum_lanes(_mm512_add_ps(even, odd)) / static_cast<float>(dim) + eps);
  for (int64_t i = 0; i < dim; i += 16) {
    const __m512 scaled = _mm512_mul_ps(load_upto(x + i, dim - i), _mm512_set1_ps(scale));
    store_upto(out + i, dim - i, _mm512_mul_ps(scaled, load_upto(gain + i, dim - i)));
  }
}

/// x * inverse rounded to nearest even, within +-127; NaN becomes 127.
__m512i round_q8(__m512 x, __m512 inverse) {
  __m512 v = _mm512_min_ps(_mm512_mul_ps(x, inverse), _mm512_set1_ps(127.0f));
  v = _mm512_max_ps(v, _mm512_set1_ps(-127.0f));
  return _mm512_cvtps_epi32(v);
}

/// The magnitudes of a block's two halves, the larger of each pair. A NaN counts as 0: max returns its second operand.
__m512 larger_half(const float* x) {
  const __m512 most = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x)), _mm512_setzero_ps());
  return _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + 16)), most);
}

void quantize_one(const float* x, std::int8_t* q, float* scale, std::int16_t* sum) {
  const float amax = max_lanes(larger_half(x));
  const __m512 inverse = _mm512_set1_ps(amax > 0 ? 127.0f / amax : 0.0f);
  const __m512i q0 = round_q8(_mm512_loadu_ps(x), inverse), q1 = round_q8(_mm512_loadu_ps(x + 16), inverse);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtsepi32_epi8(q0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), _mm512_cvtsepi32_epi8(q1));
  *scale = activation_scale(amax);
  // Sums of 16 integers up to 127 are exact in floats, in any order.
  sum[0] = static_cast<std::int16_t>(sum_lanes(_mm512_cvtepi32_ps(q0)));
  sum[1] = static_cast<std::int16_t>(sum_lanes(_mm512_cvtepi32_ps(q1)));
}

constexpr int kBlocksAtOnce = 8;

/// Quarters of a and b: two halves of each beside each other. Upper = 0: the lower halves, else the upper ones.
template <int kUpper>
__m512i halves_of(__m512i a, __m512i b) {
  return _mm512_shuffle_i32x4(a, b, kUpper ? 0xEE : 0x44);
}
template <int kOdd>
__m512i quarters_of(__m512i a, __m512i b) {
  return _mm512_shuffle_i32x4(a, b, kOdd ? 0xDD : 0x88);
}
__m512 max_halves(__m512 a, __m512 b) {
  const __m512i x = _mm512_castps_si512(a), y = _mm512_castps_si512(b);
  return _mm512_max_ps(_mm512_castsi512_ps(halves_of<0>(x, y)), _mm512_castsi512_ps(halves_of<1>(x, y)));
}
__m512 max_quarters(__m512 a, __m512 b) {
  const __m512i x = _mm512_castps_si512(a), y = _mm512_castps_si512(b);
  return _mm512_max_ps(_mm512_castsi512_ps(quarters_of<0>(x, y)), _mm512_castsi512_ps(quarters_of<1>(x, y)));
}

/// The largest lane of each of eight vectors.
__m256 max_of_each(const __m512 (&m)[kBlocksAtOnce]) {
  const __m512 a = max_quarters(max_halves(m[0], m[1]), max_halves(m[2], m[3]));  // quarter i: what is left of m[i]
  const __m512 b = max_quarters(max_halves(m[4], m[5]), max_halves(m[6], m[7]));
  const __m512 two = _mm512_max_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
  const __m512 one = _mm512_max_ps(two, _mm512_shuffle_ps(two, two, 0xB1));  // quarter i: m[i] twice, m[i + 4] twice
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_castps512_ps256(_mm512_permutexvar_ps(order, one));
}

/// Eight blocks at a time: what is one number a block (largest magnitude, division, sums) is made for all at once.
void quantize_eight(const float* x, std::int8_t* q, float* scale, std::int16_t* sum) {
  __m512 most[kBlocksAtOnce];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocksAtOnce; ++b) most[b] = larger_half(x + b * 32);
  const __m256 amax = max_of_each(most), full = _mm256_set1_ps(127.0f);
  const __m256 some = _mm256_cmp_ps(amax, _mm256_setzero_ps(), _CMP_GT_OQ);
  alignas(32) float inverse[kBlocksAtOnce];
  _mm256_store_ps(inverse, _mm256_and_ps(some, _mm256_div_ps(full, amax)));
  const __m256 kept = _mm256_castsi256_ps(_mm256_set1_epi32(~3));  // as activation_scale
  _mm256_storeu_ps(scale, _mm256_and_ps(_mm256_div_ps(amax, full), kept));

  const __m512i ones = _mm512_set1_epi8(1);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i sums[4];
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    __m512i rounded[4];  // the halves of two blocks
#pragma GCC unroll 4
    for (int h = 0; h < 4; ++h)
      rounded[h] = round_q8(_mm512_loadu_ps(x + pair * 64 + h * 16), _mm512_set1_ps(inverse[pair * 2 + h / 2]));
    const __m512i words[2] = {_mm512_packs_epi32(rounded[0], rounded[1]), _mm512_packs_epi32(rounded[2], rounded[3])};
    const __m512i bytes = _mm512_packs_epi16(words[0], words[1]);  // quarter i: four bytes of each half
    sums[pair] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, bytes);
    _mm512_storeu_si512(q + pair * 64, _mm512_permutexvar_epi32(order, bytes));
  }
  const auto add_halves = [](__m512i a, __m512i b) { return _mm512_add_epi32(halves_of<0>(a, b), halves_of<1>(a, b)); };
  const __m512i a = add_halves(sums[0], sums[1]), b = add_halves(sums[2], sums[3]);
  const __m512i all = _mm512_add_epi32(quarters_of<0>(a, b), quarters_of<1>(a, b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sum), _mm512_cvtsepi32_epi16(all));
}

}  // namespace

void rms_norm_f32(const RmsNormArgs& p) {
  for (int64_t r = 0; r < p.rows; ++r) norm_row(p.x + r * p.dim, p.gain, p.out + r * p.dim, p.dim, p.eps);
}

void quantize_q8(const QuantizeArgs& p) {
  const int64_t blocks = p.rows * (p.k / 32);
  int64_t b = 0;
  for (; b + kBlocksAtOnce <= blocks; b += kBlocksAtOnce)
    quantize_eight(p.x + b * 32, p.q + b * 32, p.scale + b, p.sum + b * 2);
  for (; b < blocks; ++b) quantize_one(p.x + b * 32, p.q + b * 32, p.scale + b, p.sum + b * 2);
}

void swiglu_f32(const SwiGluArgs& p) {
  const __m512 lowest = _mm512_set1_ps(-0x1.fffffep127f), one = _mm512_set1_ps(1.0f), sign = _mm512_set1_ps(-0.0f);
  for (int64_t i = 0; i < p.n; i += 16) {
    const __m512 gate = _mm512_max_ps(lowest, load_upto(p.gate + i, p.n - i));
    const __m512 silu = _mm512_div_ps(gate, _mm512_add_ps(one, exp(_mm512_xor_ps(gate, sign))));
    store_upto(p.out + i, p.n - i, _mm512_mul_ps(silu, load_upto(p.up + i, p.n - i)));
  }
}

}  // namespace millrace::kernels::MILLRACE_AVX512
