// Flash attention over one split of a paged cache, one query row and head after the other, and the merge of splits.

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
namespace {

struct F32 {
  using type = float;
  static float widen(float x) { return x; }
};
struct F16 {
  using type = std::uint16_t;
  static float widen(std::uint16_t x) { return tensor::f16_to_f32(x); }
};
struct Bf16 {
  using type = std::uint16_t;
  static float widen(std::uint16_t x) { return tensor::bf16_to_f32(x); }
};
struct Int8 {
  using type = std::int8_t;
  static float widen(std::int8_t x) { return x; }
};

/// Elements are codes, and each token has a scale.
template <class Kv>
constexpr bool is_scaled = false;
template <>
constexpr bool is_scaled<Int8> = true;

/// The element `index` of position `t`'s block in `cache`.
template <class Kv>
float element(const AttendArgs& p, const std::uint8_t* cache, std::int64_t t, std::int64_t index) {
  typename Kv::type value;
  std::memcpy(&value,
              cache + p.table[t / p.block_tokens] * p.block_stride + index * static_cast<std::int64_t>(sizeof(value)),
              sizeof(value));
  return Kv::widen(value);
}

/// The word of scales of position `t`'s vector in `cache`.
std::uint32_t scales_of(const AttendArgs& p, const std::uint8_t* cache, std::int64_t t) {
  std::uint32_t word;
  std::memcpy(&word,
              cache + p.table[t / p.block_tokens] * p.block_stride + p.block_tokens * p.head_dim +
                  t % p.block_tokens * kKvScaleBytes,
              sizeof(word));
  return word;
}

/// The sum over dimensions [begin, end) of q and key t.
template <class Kv>
float product(const AttendArgs& p, const float* q, std::int64_t t, std::int64_t begin, std::int64_t end) {
  float sum = 0;
  for (std::int64_t d = begin; d < end; ++d)
    sum = std::fma(q[d], element<Kv>(p, p.k_cache, t, d * p.block_tokens + t % p.block_tokens), sum);
  return sum;
}

template <class Kv>
float score(const AttendArgs& p, const float* q, std::int64_t t) {
  if constexpr (!is_scaled<Kv>) return product<Kv>(p, q, t, 0, p.head_dim) * p.scale;
  const std::uint32_t word = scales_of(p, p.k_cache, t);
  const float lower = std::bit_cast<float>(word << 16), upper = std::bit_cast<float>(word & 0xFFFF0000u);
  const std::int64_t half = p.head_dim / 2;
  return std::fma(product<Kv>(p, q, t, half, p.head_dim), upper, product<Kv>(p, q, t, 0, half) * lower) * p.scale;
}

/// One online-softmax step: keys [begin, end), all within one tile and all the row's own.
template <class Kv>
void attend_tile(const AttendArgs& p, const float* q, std::int64_t begin, std::int64_t end, float& m, float& l,
                 float* o) {
  float s[kKeyTile] = {};  // by position in the tile; after exp, 0 where the row has no key
  float new_m = m;
  for (std::int64_t t = begin; t < end; ++t) {
    s[t % kKeyTile] = score<Kv>(p, q, t);
    new_m = std::max(new_m, s[t % kKeyTile]);
  }
  for (std::int64_t t = begin; t < end; ++t) s[t % kKeyTile] = exp(s[t % kKeyTile] - new_m);
  const float correction = exp(m - new_m);

  float lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = ((s[i] + s[16 + i]) + s[32 + i]) + s[48 + i];
  l = l * correction + sum_lanes(lane);
  if constexpr (is_scaled<Kv>)
    for (std::int64_t t = begin; t < end; ++t) s[t % kKeyTile] *= std::bit_cast<float>(scales_of(p, p.v_cache, t));
  for (std::int64_t d = 0; d < p.head_dim; ++d) {
    float sum = o[d] * correction;
    for (std::int64_t t = begin; t < end; ++t)
      sum = std::fma(s[t % kKeyTile], element<Kv>(p, p.v_cache, t, t % p.block_tokens * p.head_dim + d), sum);
    o[d] = sum;
  }
  m = new_m;
}

template <class Kv>
void attend(const AttendArgs& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const std::int64_t position = p.first_position + r;
    const std::int64_t begin = p.window > 0 ? std::max(p.key_begin, position + 1 - p.window) : p.key_begin;
    const std::int64_t end = std::min(p.key_end, position + 1);
    for (std::int64_t h = 0; h < p.group; ++h) {
      const std::int64_t row = r * p.group + h;
      float* o = p.o + row * p.head_dim;
      p.m[row] = -std::numeric_limits<float>::infinity();
      p.l[row] = 0;
      std::fill_n(o, p.head_dim, 0.0f);
      for (std::int64_t t = begin; t < end;) {
        const std::int64_t tile_end = std::min(end, (t / kKeyTile + 1) * kKeyTile);
        attend_tile<Kv>(p, p.q + r * p.q_stride + h * p.head_dim, t, tile_end, p.m[row], p.l[row], o);
        t = tile_end;
      }
    }
  }
}

}  // namespace

void attend_f32(const AttendArgs& p) { attend<F32>(p); }
void attend_f16(const AttendArgs& p) { attend<F16>(p); }
void attend_bf16(const AttendArgs& p) { attend<Bf16>(p); }
void attend_int8(const AttendArgs& p) { attend<Int8>(p); }

void merge_partials(const MergeArgs& p) {
  float m = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < p.n; ++i)
    if (p.l[i * p.ml_stride] != 0) m = std::max(m, p.m[i * p.ml_stride]);
  float l = 0;
  std::fill_n(p.out, p.head_dim, 0.0f);
  for (std::int64_t i = 0; i < p.n; ++i) {
    const float l_i = p.l[i * p.ml_stride];
    if (l_i == 0) continue;
    const float weight = exp(p.m[i * p.ml_stride] - m);
    l = std::fma(weight, l_i, l);
    for (std::int64_t d = 0; d < p.head_dim; ++d) p.out[d] = std::fma(weight, p.o[i * p.o_stride + d], p.out[d]);
  }
  if (l == 0) return;
  for (std::int64_t d = 0; d < p.head_dim; ++d) p.out[d] /= l;
}

}  // namespace millrace::kernels::generic
