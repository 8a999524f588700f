// Rows of K and V into the paged cache, on AVX2: V as rows, K transposed, eight tokens at a time.

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/vec.h"
#include "kernels/kv_int8.h"

namespace millrace::kernels::avx2 {
namespace {

/// Rows become columns.
void transpose8(__m256 (&v)[8]) {
  __m256 pairs[8], quads[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

/// Of dimensions [begin, end) of `tokens` <= 8 rows (stride kv_stride) the scales, and what makes codes of their
/// values.
void find_scales(const float* x, int64_t kv_stride, int64_t tokens, int64_t begin, int64_t end, float* scales,
                 float* to_codes, KvScale (*choose)(std::int32_t)) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  for (int64_t t = 0; t < tokens; ++t) {
    __m256i most = _mm256_setzero_si256();
    for (int64_t d = begin; d < end; d += 8)
      most = _mm256_max_epi32(
          most, _mm256_and_si256(_mm256_castps_si256(load_upto(x + t * kv_stride + d, end - d)), magnitude));
    const KvScale scale = choose(max_lanes(most));
    scales[t] = scale.scale, to_codes[t] = scale.to_code;
  }
}

/// `tokens` <= 8 rows of K (stride kv_stride) into columns of a block; codes: each times to_codes[0], in the upper half
/// of its dimensions to_codes[1].
template <class T>
void write_k(const float* k, int64_t kv_stride, int64_t tokens, int64_t head_dim, const float (*to_codes)[8],
             typename T::type* to, int64_t block_tokens) {
  for (int64_t d = 0; d < head_dim; d += 8) {
    const int64_t n = min64(8, head_dim - d);
    __m256 v[8];
    for (int64_t t = 0; t < 8; ++t) v[t] = t < tokens ? load_upto(k + t * kv_stride + d, n) : _mm256_setzero_ps();
    transpose8(v);
    for (int64_t i = 0; i < n; ++i)
      store_elements<T>(to + (d + i) * block_tokens, tokens,
                        is_scaled<T> ? _mm256_mul_ps(v[i], _mm256_loadu_ps(to_codes[d + i >= head_dim / 2])) : v[i]);
  }
}

/// `tokens` rows of V, likewise, into rows of a block.
template <class T>
void write_v(const float* v, int64_t kv_stride, int64_t tokens, int64_t head_dim, const float* to_codes,
             typename T::type* to) {
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t d = 0; d < head_dim; d += 8) {
      const __m256 x = load_upto(v + t * kv_stride + d, head_dim - d);
      store_elements<T>(to + t * head_dim + d, head_dim - d,
                        is_scaled<T> ? _mm256_mul_ps(x, _mm256_set1_ps(to_codes[t])) : x);
    }
}

template <class T>
void kv_write(const KvWriteArgs& p) {
  using Element = typename T::type;
  float k_codes[2][8] = {}, v_codes[8] = {};
  for (int64_t r = 0; r < p.rows;) {
    const int64_t position = p.first_position + r, slot = position % p.block_tokens;
    const int64_t tokens = min64(p.rows - r, 8 - slot % 8);  // up to a multiple of 8: never across a block
    const int64_t block = p.table[position / p.block_tokens] * p.block_stride;
    const float *k = p.k + r * p.kv_stride, *v = p.v + r * p.kv_stride;
    if constexpr (is_scaled<T>) {
      const int64_t scales = block + p.block_tokens * p.head_dim + slot * kKvScaleBytes, half = p.head_dim / 2;
      float lower[8], upper[8], all[8];
      find_scales(k, p.kv_stride, tokens, 0, half, lower, k_codes[0], kv_short_scale);
      find_scales(k, p.kv_stride, tokens, half, p.head_dim, upper, k_codes[1], kv_short_scale);
      find_scales(v, p.kv_stride, tokens, 0, p.head_dim, all, v_codes, kv_scale);
      for (int64_t t = 0; t < tokens; ++t) {
        reinterpret_cast<std::uint32_t*>(p.k_cache + scales)[t] = kv_scales_word(lower[t], upper[t]);
        reinterpret_cast<float*>(p.v_cache + scales)[t] = all[t];
      }
    }
    write_k<T>(k, p.kv_stride, tokens, p.head_dim, k_codes, reinterpret_cast<Element*>(p.k_cache + block) + slot,
               p.block_tokens);
    write_v<T>(v, p.kv_stride, tokens, p.head_dim, v_codes,
               reinterpret_cast<Element*>(p.v_cache + block) + slot * p.head_dim);
    r += tokens;
  }
}

}  // namespace

void kv_write_f32(const KvWriteArgs& p) { kv_write<F32>(p); }
void kv_write_f16(const KvWriteArgs& p) { kv_write<F16>(p); }
void kv_write_bf16(const KvWriteArgs& p) { kv_write<Bf16>(p); }
void kv_write_int8(const KvWriteArgs& p) { kv_write<Int8>(p); }

}  // namespace millrace::kernels::avx2
