#pragma once

// For the tests of attention: a sequence in no kernel's layout, its paged cache, and all splits of it merged.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/kv_int8.h"
#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {

enum class Kv { f32, f16, bf16, int8 };
inline constexpr Kv kKvTypes[] = {Kv::f32, Kv::f16, Kv::bf16, Kv::int8};
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline attend_f32_fn KernelTable::*attend_slot(Kv kv) {
  return kv == Kv::f32    ? &KernelTable::attend_f32
         : kv == Kv::f16  ? &KernelTable::attend_f16
         : kv == Kv::bf16 ? &KernelTable::attend_bf16
                          : &KernelTable::attend_int8;
}
inline std::int64_t size_of(Kv kv) { return kv == Kv::f32 ? 4 : kv == Kv::int8 ? 1 : 2; }

/// A block of one head, scales included.
inline std::int64_t block_bytes(Kv kv, std::int64_t block_tokens, std::int64_t head_dim) {
  return block_tokens * (head_dim * size_of(kv) + (kv == Kv::int8 ? kKvScaleBytes : 0));
}

inline float rounded(float x, Kv kv) {
  if (kv == Kv::f16) return tensor::f16_to_f32(tensor::f32_to_f16(x));
  if (kv == Kv::bf16) return tensor::bf16_to_f32(tensor::f32_to_bf16(x));
  return x;
}

/// Rounds dimensions [begin, end) of the vectors to INT8 and returns their scales: bf16, so a code times its scale is
/// exact.
inline Array<float> round_to_int8(Array<float>& x, std::int64_t head_dim, std::int64_t begin, std::int64_t end) {
  Array<float> scales(x.size() / head_dim);
  for (std::int64_t t = 0; t < scales.size(); ++t) {
    float* vector = x.data() + t * head_dim;
    float most = 0;
    for (std::int64_t d = begin; d < end; ++d) most = std::max(most, std::abs(vector[d]));
    scales[t] = std::bit_cast<float>((std::bit_cast<std::uint32_t>(most / 127) + 0xFFFFu) & 0xFFFF0000u);
    for (std::int64_t d = begin; d < end; ++d) vector[d] = std::nearbyint(vector[d] / scales[t]) * scales[t];
  }
  return scales;
}

/// One KV head of one sequence, and the queries of its group at every position: numbers that the format holds exactly.
struct Sequence {
  Kv kv;
  std::int64_t tokens, group, head_dim;
  Array<float> q;                                   // [tokens][group][head_dim]
  Array<float> k, v;                                // [tokens][head_dim]
  Array<float> k_lower{0}, k_upper{0}, v_scale{0};  // [tokens], int8 only: scales of the halves of K, and of V
};

inline Sequence make_sequence(Kv kv, std::int64_t tokens, std::int64_t group, std::int64_t head_dim, Rng& rng,
                              float spread = 1) {
  Sequence s{kv,
             tokens,
             group,
             head_dim,
             random_floats(tokens * group * head_dim, rng, spread),
             random_floats(tokens * head_dim, rng),
             random_floats(tokens * head_dim, rng)};
  for (float& x : s.k) x = rounded(x, kv);
  for (float& x : s.v) x = rounded(x, kv);
  if (kv != Kv::int8) return s;
  s.k_lower = round_to_int8(s.k, head_dim, 0, head_dim / 2);
  s.k_upper = round_to_int8(s.k, head_dim, head_dim / 2, head_dim);
  s.v_scale = round_to_int8(s.v, head_dim, 0, head_dim);
  return s;
}

/// n values as codes `step` apart. Returns their scale, or an infinity or NaN that is among them.
inline float put_int8(std::uint8_t* codes, std::int64_t step, const float* x, std::int64_t n, float scale) {
  float out = scale;
  for (std::int64_t d = 0; d < n; ++d) {
    const bool finite = std::isfinite(x[d]);
    codes[d * step] = static_cast<std::uint8_t>(static_cast<std::int8_t>(finite ? std::nearbyint(x[d] / scale) : 127));
    if (!finite) out = x[d];
  }
  return out;
}

/// The sequence's blocks in some physical order. What no token owns holds `filler` as 32-bit pattern: NaN by default.
struct Cache {
  Array<std::uint8_t> k, v;
  Array<std::int32_t> table;
  std::int64_t block_tokens, block_stride;
};

inline Cache make_cache(const Sequence& s, std::int64_t block_tokens, const std::vector<std::int32_t>& order,
                        std::uint32_t filler = 0x7FFF7FFF) {
  const auto blocks = static_cast<std::int64_t>(order.size());
  const std::int64_t size = size_of(s.kv), stride = align64(block_bytes(s.kv, block_tokens, s.head_dim));
  const std::int64_t used = (s.tokens + block_tokens - 1) / block_tokens;
  Cache c{Array<std::uint8_t>(blocks * stride), Array<std::uint8_t>(blocks * stride), Array<std::int32_t>(used),
          block_tokens, stride};
  for (std::int64_t i = 0; i < blocks * stride; i += 4)
    std::memcpy(c.k.data() + i, &filler, 4), std::memcpy(c.v.data() + i, &filler, 4);
  for (std::int64_t b = 0; b < used; ++b) c.table[b] = order[static_cast<std::size_t>(b)];
  const auto put = [&](std::uint8_t* at, float x) {
    const std::uint16_t half = s.kv == Kv::f16 ? tensor::f32_to_f16(x) : tensor::f32_to_bf16(x);
    if (s.kv == Kv::f32)
      std::memcpy(at, &x, 4);
    else
      std::memcpy(at, &half, 2);
  };
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const std::int64_t block = c.table[t / block_tokens] * stride, slot = t % block_tokens, first = t * s.head_dim;
    std::uint8_t *k = c.k.data() + block, *v = c.v.data() + block;
    if (s.kv == Kv::int8) {
      const std::int64_t half = s.head_dim / 2, scales = block_tokens * s.head_dim + slot * kKvScaleBytes;
      const float* key = s.k.data() + first;
      const float lower = put_int8(k + slot, block_tokens, key, half, s.k_lower[t]);
      const float upper =
          put_int8(k + slot + half * block_tokens, block_tokens, key + half, s.head_dim - half, s.k_upper[t]);
      const std::uint32_t word = kv_scales_word(lower, upper);
      const float scale = put_int8(v + slot * s.head_dim, 1, s.v.data() + first, s.head_dim, s.v_scale[t]);
      std::memcpy(k + scales, &word, sizeof(word));
      std::memcpy(v + scales, &scale, sizeof(scale));
      continue;
    }
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      put(k + (d * block_tokens + slot) * size, s.k[first + d]);
      put(v + (slot * s.head_dim + d) * size, s.v[first + d]);
    }
  }
  return c;
}

inline Cache make_cache(const Sequence& s, std::int64_t block_tokens) {
  std::vector<std::int32_t> order(static_cast<std::size_t>((s.tokens + block_tokens - 1) / block_tokens));
  std::iota(order.rbegin(), order.rend(), 0);
  return make_cache(s, block_tokens, order);
}

struct Partial {
  Array<float> m, l, o;
};

/// Rows [first, first + rows) against one split.
inline Partial attend_split(const KernelTable& t, const Sequence& s, const Cache& c, std::int64_t first,
                            std::int64_t rows, std::int64_t key_begin, std::int64_t window) {
  const std::int64_t heads = rows * s.group, q_stride = s.group * s.head_dim;
  Partial out{Array<float>(heads, 5.0f), Array<float>(heads, 5.0f), Array<float>(heads * s.head_dim, 5.0f)};
  Array<float> scratch(attend_scratch_floats(heads, s.head_dim));
  const std::int64_t key_end = std::min(key_begin + kKeySplit, first + rows);
  (t.*attend_slot(s.kv))({s.q.data() + first * q_stride,
                          q_stride,
                          rows,
                          s.group,
                          s.head_dim,
                          first,
                          key_begin,
                          key_end,
                          window,
                          1.0f / std::sqrt(static_cast<float>(s.head_dim)),
                          c.k.data(),
                          c.v.data(),
                          c.table.data(),
                          c.block_tokens,
                          c.block_stride,
                          0,
                          out.m.data(),
                          out.l.data(),
                          out.o.data(),
                          scratch.data()});
  return out;
}

/// [rows, group, head_dim], all splits merged.
inline Array<float> attend(const KernelTable& t, const Sequence& s, const Cache& c, std::int64_t first,
                           std::int64_t rows, std::int64_t window = 0) {
  const std::int64_t splits = (first + rows + kKeySplit - 1) / kKeySplit, heads = rows * s.group;
  Array<float> m(splits * heads), l(splits * heads), o(splits * heads * s.head_dim), out(heads * s.head_dim);
  for (std::int64_t i = 0; i < splits; ++i) {
    const Partial part = attend_split(t, s, c, first, rows, i * kKeySplit, window);
    std::memcpy(m.data() + i * heads, part.m.data(), part.m.bytes());
    std::memcpy(l.data() + i * heads, part.l.data(), part.l.bytes());
    std::memcpy(o.data() + i * heads * s.head_dim, part.o.data(), part.o.bytes());
  }
  for (std::int64_t h = 0; h < heads; ++h)
    t.merge_partials({m.data() + h, l.data() + h, o.data() + h * s.head_dim, splits, heads, heads * s.head_dim,
                      s.head_dim, out.data() + h * s.head_dim});
  return out;
}

}  // namespace millrace::kernels::testing
