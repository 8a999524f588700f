// Rows of K and V into the paged cache, on NEON: V as rows, K transposed, four tokens at a time.

#include "kernels/cpu/neon/kernels.h"
#include "kernels/cpu/neon/vec.h"
#include "kernels/kv_int8.h"

namespace millrace::kernels::neon {
namespace {

/// Rows become columns.
void transpose4(float32x4_t (&v)[4]) {
  const auto pairs = [](float32x4_t x) { return vreinterpretq_f64_f32(x); };
  const auto floats = [](float64x2_t x) { return vreinterpretq_f32_f64(x); };
  const float64x2_t even01 = pairs(vtrn1q_f32(v[0], v[1])), odd01 = pairs(vtrn2q_f32(v[0], v[1]));
  const float64x2_t even23 = pairs(vtrn1q_f32(v[2], v[3])), odd23 = pairs(vtrn2q_f32(v[2], v[3]));
  v[0] = floats(vtrn1q_f64(even01, even23));
  v[1] = floats(vtrn1q_f64(odd01, odd23));
  v[2] = floats(vtrn2q_f64(even01, even23));
  v[3] = floats(vtrn2q_f64(odd01, odd23));
}

/// Of dimensions [begin, end) of `tokens` <= 4 rows (stride kv_stride) the scales, and what makes codes of their
/// values.
void find_scales(const float* x, int64_t kv_stride, int64_t tokens, int64_t begin, int64_t end, float* scales,
                 float* to_codes, KvScale (*choose)(std::int32_t)) {
  const int32x4_t magnitude = vdupq_n_s32(0x7FFFFFFF);
  for (int64_t t = 0; t < tokens; ++t) {
    int32x4_t most = vdupq_n_s32(0);
    for (int64_t d = begin; d < end; d += 4)
      most = vmaxq_s32(most, vandq_s32(vreinterpretq_s32_f32(load_upto(x + t * kv_stride + d, end - d)), magnitude));
    const KvScale scale = choose(vmaxvq_s32(most));
    scales[t] = scale.scale, to_codes[t] = scale.to_code;
  }
}

/// `tokens` <= 4 rows of K (stride kv_stride) into columns of a block; codes: each times to_codes[0], in the upper half
/// of its dimensions to_codes[1].
template <class T>
void write_k(const float* k, int64_t kv_stride, int64_t tokens, int64_t head_dim, const float (*to_codes)[4],
             typename T::type* to, int64_t block_tokens) {
  for (int64_t d = 0; d < head_dim; d += 4) {
    const int64_t n = min64(4, head_dim - d);
    float32x4_t v[4];
    for (int64_t t = 0; t < 4; ++t) v[t] = t < tokens ? load_upto(k + t * kv_stride + d, n) : vdupq_n_f32(0);
    transpose4(v);
    for (int64_t i = 0; i < n; ++i)
      store_elements<T>(to + (d + i) * block_tokens, tokens,
                        is_scaled<T> ? vmulq_f32(v[i], vld1q_f32(to_codes[d + i >= head_dim / 2])) : v[i]);
  }
}

/// `tokens` rows of V, likewise, into rows of a block.
template <class T>
void write_v(const float* v, int64_t kv_stride, int64_t tokens, int64_t head_dim, const float* to_codes,
             typename T::type* to) {
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t d = 0; d < head_dim; d += 4) {
      const float32x4_t x = load_upto(v + t * kv_stride + d, head_dim - d);
      store_elements<T>(to + t * head_dim + d, head_dim - d, is_scaled<T> ? vmulq_n_f32(x, to_codes[t]) : x);
    }
}

template <class T>
void kv_write(const KvWriteArgs& p) {
  using Element = typename T::type;
  float k_codes[2][4] = {}, v_codes[4] = {};
  for (int64_t r = 0; r < p.rows;) {
    const int64_t position = p.first_position + r, slot = position % p.block_tokens;
    const int64_t tokens = min64(p.rows - r, 4 - slot % 4);  // up to a multiple of 4: never across a block
    const int64_t block = p.table[position / p.block_tokens] * p.block_stride;
    const float *k = p.k + r * p.kv_stride, *v = p.v + r * p.kv_stride;
    if constexpr (is_scaled<T>) {
      const int64_t scales = block + p.block_tokens * p.head_dim + slot * kKvScaleBytes, half = p.head_dim / 2;
      float lower[4], upper[4], all[4];
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

}  // namespace millrace::kernels::neon
