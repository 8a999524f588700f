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

}  // namespace

void rms_norm_f32(const RmsNormArgs& p) {
  for (int64_t r = 0; r < p.rows; ++r) norm_row(p.x + r * p.dim, p.gain, p.out + r * p.dim, p.dim, p.eps);
}

void quantize_q8(const QuantizeArgs& p) {
  for (int64_t b = 0; b < p.rows * (p.k / 32); ++b) {
    const float* x = p.x + b * 32;
    const __m512 lower = _mm512_loadu_ps(x), upper = _mm512_loadu_ps(x + 16);
    __m512 most =
        _mm512_max_ps(_mm512_abs_ps(lower), _mm512_setzero_ps());  // the second operand survives a NaN in the first
    most = _mm512_max_ps(_mm512_abs_ps(upper), most);
    const float amax = max_lanes(most);
    const __m512 inverse = _mm512_set1_ps(amax > 0 ? 127.0f / amax : 0.0f);
    const __m512i q0 = round_q8(lower, inverse), q1 = round_q8(upper, inverse);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p.q + b * 32), _mm512_cvtsepi32_epi8(q0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p.q + b * 32 + 16), _mm512_cvtsepi32_epi8(q1));
    p.scale[b] = activation_scale(amax);
    // Sums of 16 integers up to 127 are exact in floats, in any order.
    p.sum[b * 2] = static_cast<std::int16_t>(sum_lanes(_mm512_cvtepi32_ps(q0)));
    p.sum[b * 2 + 1] = static_cast<std::int16_t>(sum_lanes(_mm512_cvtepi32_ps(q1)));
  }
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
