// Everything between the matrix products: norm, activation rounding, rotary, residual, SwiGLU, cache writes.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/generic/kernels.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/kv_int8.h"
#include "tensor/half.h"

namespace millrace::kernels::generic {

void rms_norm_f32(const RmsNormArgs& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const float* x = p.x + r * p.dim;
    // 32 lanes, element i in lane i % 32; the upper 16 are added to the lower 16.
    float lane[32] = {}, folded[16];
    for (std::int64_t i = 0; i < p.dim; ++i) lane[i % 32] = std::fma(x[i], x[i], lane[i % 32]);
    for (int i = 0; i < 16; ++i) folded[i] = lane[i] + lane[i + 16];
    const float scale = 1.0f / std::sqrt(sum_lanes(folded) / static_cast<float>(p.dim) + p.eps);
    for (std::int64_t i = 0; i < p.dim; ++i) p.out[r * p.dim + i] = x[i] * scale * p.gain[i];
  }
}

void quantize_q8(const QuantizeArgs& p) {
  for (std::int64_t b = 0; b < p.rows * (p.k / 32); ++b) {
    const float* x = p.x + b * 32;
    float amax = 0;
    for (int i = 0; i < 32; ++i) amax = std::abs(x[i]) > amax ? std::abs(x[i]) : amax;
    const float inverse = amax > 0 ? 127.0f / amax : 0.0f;
    std::int16_t sum[2] = {};
    for (int i = 0; i < 32; ++i) {
      // Comparisons, not std::clamp: NaN (a NaN in x; 0 * inf where amax is so small that 127 / amax overflows) ends as
      // 127.
      float scaled = x[i] * inverse;
      scaled = scaled < 127.0f ? scaled : 127.0f;
      scaled = scaled > -127.0f ? scaled : -127.0f;
      const auto q = static_cast<std::int8_t>((scaled + 0x1.8p23f) - 0x1.8p23f);  // rounds to nearest even
      p.q[b * 32 + i] = q;
      sum[i / 16] = static_cast<std::int16_t>(sum[i / 16] + q);
    }
    p.scale[b] = activation_scale(amax);
    std::copy(sum, sum + 2, p.sum + b * 2);
  }
}

void to_bf16(const ToBf16Args& p) {
  for (std::int64_t i = 0; i < p.n; ++i) p.out[i] = tensor::f32_to_bf16(p.x[i]);
}

void rope_f32(const RopeArgs& p) {
  const std::int64_t half = p.rot / 2;
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (std::int64_t h = 0; h < p.heads; ++h) {
      float* x = p.x + (r * p.heads + h) * p.head_dim;
      for (std::int64_t i = 0; i < half; ++i) {
        const float cos = p.cos[r * half + i], sin = p.sin[r * half + i];
        const float first = x[i], second = x[i + half];
        x[i] = std::fma(first, cos, -(second * sin));
        x[i + half] = std::fma(second, cos, first * sin);
      }
    }
}

void add_f32(const AddArgs& p) {
  for (std::int64_t i = 0; i < p.n; ++i) p.out[i] = p.a[i] + p.b[i];
}

void swiglu_f32(const SwiGluArgs& p) {
  for (std::int64_t i = 0; i < p.n; ++i) {
    // A finite gate keeps -inf / inf from being NaN; exp overflows long before, so the result is -0 as for any gate
    // below -89.
    constexpr float kLowest = std::numeric_limits<float>::lowest();
    const float gate = kLowest > p.gate[i] ? kLowest : p.gate[i];
    p.out[i] = gate / (1.0f + exp(-gate)) * p.up[i];
  }
}

namespace {

/// n values as codes `step` bytes apart. Returns their scale, chosen by `choose`.
float write_codes(const float* x, std::int64_t n, std::uint8_t* codes, std::int64_t step,
                  KvScale (*choose)(std::int32_t)) {
  std::int32_t most = 0;
  for (std::int64_t d = 0; d < n; ++d) most = std::max(most, std::bit_cast<std::int32_t>(std::abs(x[d])));
  const KvScale scale = choose(most);
  for (std::int64_t d = 0; d < n; ++d) {
    float code = x[d] * scale.to_code;
    code = code < 127.0f ? code : 127.0f;  // in this order NaN ends as 127
    code = code > -127.0f ? code : -127.0f;
    // Rounds to nearest even.
    codes[d * step] = static_cast<std::uint8_t>(static_cast<std::int8_t>((code + 0x1.8p23f) - 0x1.8p23f));
  }
  return scale.scale;
}

/// narrow turns one f32 into an element of the cache.
template <class T, class Narrow>
void kv_write(const KvWriteArgs& p, Narrow narrow) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::int64_t position = p.first_position + r, slot = position % p.block_tokens;
    const std::int64_t block = p.table[position / p.block_tokens] * p.block_stride;
    for (std::int64_t d = 0; d < p.head_dim; ++d) {
      const T k = narrow(p.k[r * p.kv_stride + d]), v = narrow(p.v[r * p.kv_stride + d]);
      std::memcpy(p.k_cache + block + (d * p.block_tokens + slot) * static_cast<std::int64_t>(sizeof(T)), &k,
                  sizeof(T));
      std::memcpy(p.v_cache + block + (slot * p.head_dim + d) * static_cast<std::int64_t>(sizeof(T)), &v, sizeof(T));
    }
  }
}

}  // namespace

void kv_write_f32(const KvWriteArgs& p) {
  kv_write<float>(p, [](float x) { return x; });
}

void kv_write_f16(const KvWriteArgs& p) {
  kv_write<std::uint16_t>(p, [](float x) {
    x = 65504.0f < x ? 65504.0f : x;  // NaN stays NaN
    x = -65504.0f > x ? -65504.0f : x;
    return tensor::f32_to_f16(x);
  });
}

void kv_write_bf16(const KvWriteArgs& p) {
  kv_write<std::uint16_t>(p, [](float x) { return tensor::f32_to_bf16(x); });
}

void kv_write_int8(const KvWriteArgs& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::int64_t position = p.first_position + r, slot = position % p.block_tokens;
    const std::int64_t block = p.table[position / p.block_tokens] * p.block_stride;
    const std::int64_t scales = block + p.block_tokens * p.head_dim + slot * kKvScaleBytes, half = p.head_dim / 2;
    const float* k = p.k + r * p.kv_stride;
    std::uint8_t* codes = p.k_cache + block + slot;
    const float lower = write_codes(k, half, codes, p.block_tokens, kv_short_scale);
    const float upper =
        write_codes(k + half, p.head_dim - half, codes + half * p.block_tokens, p.block_tokens, kv_short_scale);
    const std::uint32_t word = kv_scales_word(lower, upper);
    std::memcpy(p.k_cache + scales, &word, sizeof(word));
    const float scale =
        write_codes(p.v + r * p.kv_stride, p.head_dim, p.v_cache + block + slot * p.head_dim, 1, kv_scale);
    std::memcpy(p.v_cache + scales, &scale, sizeof(scale));
  }
}

}  // namespace millrace::kernels::generic
