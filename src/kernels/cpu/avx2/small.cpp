// Everything between the matrix products, on AVX2. Bits as in generic/small.cpp.

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/vec.h"

namespace millrace::kernels::avx2 {
namespace {

float sqrt_of(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

void norm_row(const float* x, const float* gain, float* out, int64_t dim, float eps) {
  // 32 lanes in four accumulators: a fused multiply-add takes 4 cycles.
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= dim; i += 32)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * j);
      sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
    }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {  // lanes past the end add +0, which changes no sum of squares
    if (i + 8 * j >= dim) break;
    const __m256 v = load_upto(x + i + 8 * j, dim - i - 8 * j);
    sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
  }
  const float total = sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[2]), _mm256_add_ps(sum[1], sum[3])));
  const float scale = 1.0f / sqrt_of(total / static_cast<float>(dim) + eps);
  const __m256 scales = _mm256_set1_ps(scale);
  for (i = 0; i + 8 <= dim; i += 8)
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), scales), _mm256_loadu_ps(gain + i)));
  for (; i < dim; ++i) out[i] = x[i] * scale * gain[i];
}

__m256 absolute(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

/// x * inverse rounded to nearest even, within +-127; NaN becomes 127.
__m256i round_q8(__m256 x, __m256 inverse) {
  __m256 v = _mm256_min_ps(_mm256_mul_ps(x, inverse), _mm256_set1_ps(127.0f));
  v = _mm256_max_ps(v, _mm256_set1_ps(-127.0f));
  return _mm256_cvtps_epi32(v);
}

/// The sums of a's and of b's lanes, which fit in 16 bits, side by side.
void store_sums(std::int16_t* to, __m256i a, __m256i b) {
  const __m256i pairs = _mm256_hadd_epi32(a, b);  // two of a and two of b in either half
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  const __m128i two = _mm_hadd_epi32(four, four);
  _mm_storeu_si32(to, _mm_packs_epi32(two, two));
}

}  // namespace

void rms_norm_f32(const RmsNormArgs& p) {
  for (int64_t r = 0; r < p.rows; ++r) norm_row(p.x + r * p.dim, p.gain, p.out + r * p.dim, p.dim, p.eps);
}

void quantize_q8(const QuantizeArgs& p) {
  for (int64_t b = 0; b < p.rows * (p.k / 32); ++b) {
    const float* x = p.x + b * 32;
    const __m256 v0 = _mm256_loadu_ps(x), v1 = _mm256_loadu_ps(x + 8), v2 = _mm256_loadu_ps(x + 16),
                 v3 = _mm256_loadu_ps(x + 24);
    __m256 most = _mm256_max_ps(absolute(v0), _mm256_setzero_ps());  // the second operand survives a NaN in the first
    most = _mm256_max_ps(absolute(v1), most);
    most = _mm256_max_ps(absolute(v2), most);
    most = _mm256_max_ps(absolute(v3), most);
    const float amax = max_lanes(most);
    const __m256 inverse = _mm256_set1_ps(amax > 0 ? 127.0f / amax : 0.0f);
    const __m256i q0 = round_q8(v0, inverse), q1 = round_q8(v1, inverse), q2 = round_q8(v2, inverse),
                  q3 = round_q8(v3, inverse);
    // The packs work within 128-bit halves: a final permutation of 32-bit groups brings them back in order.
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3));
    const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p.q + b * 32), ordered);
    p.scale[b] = activation_scale(amax);
    store_sums(p.sum + b * 2, _mm256_add_epi32(q0, q1), _mm256_add_epi32(q2, q3));
  }
}

void to_bf16(const ToBf16Args& p) {
  for (int64_t i = 0; i < p.n; i += 8) store_elements<Bf16>(p.out + i, p.n - i, load_upto(p.x + i, p.n - i));
}

void rope_f32(const RopeArgs& p) {
  const int64_t half = p.rot / 2;
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t h = 0; h < p.heads; ++h) {
      float* x = p.x + (r * p.heads + h) * p.head_dim;
      const float *cos = p.cos + r * half, *sin = p.sin + r * half;
      for (int64_t i = 0; i < half; i += 8) {
        const int64_t n = half - i;
        const __m256 c = load_upto(cos + i, n), s = load_upto(sin + i, n);
        const __m256 first = load_upto(x + i, n), second = load_upto(x + half + i, n);
        store_upto(x + i, n, _mm256_fmsub_ps(first, c, _mm256_mul_ps(second, s)));
        store_upto(x + half + i, n, _mm256_fmadd_ps(second, c, _mm256_mul_ps(first, s)));
      }
    }
}

void add_f32(const AddArgs& p) {
  int64_t i = 0;
  for (; i + 8 <= p.n; i += 8)
    _mm256_storeu_ps(p.out + i, _mm256_add_ps(_mm256_loadu_ps(p.a + i), _mm256_loadu_ps(p.b + i)));
  for (; i < p.n; ++i) p.out[i] = p.a[i] + p.b[i];
}

void swiglu_f32(const SwiGluArgs& p) {
  const __m256 lowest = _mm256_set1_ps(-0x1.fffffep127f), one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
  for (int64_t i = 0; i < p.n; i += 8) {
    const __m256 gate = _mm256_max_ps(lowest, load_upto(p.gate + i, p.n - i));
    const __m256 silu = _mm256_div_ps(gate, _mm256_add_ps(one, exp(_mm256_xor_ps(gate, sign))));
    store_upto(p.out + i, p.n - i, _mm256_mul_ps(silu, load_upto(p.up + i, p.n - i)));
  }
}

}  // namespace millrace::kernels::avx2
