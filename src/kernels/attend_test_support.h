#pragma once

// For the tests of attention: a sequence in no kernel's layout, its paged cache, and all splits of it merged.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {

enum class Kv { f32, f16, bf16 };
inline constexpr Kv kKvTypes[] = {Kv::f32, Kv::f16, Kv::bf16};
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline attend_f32_fn kernel_of(const KernelTable& t, Kv kv) {
  return kv == Kv::f32 ? t.attend_f32 : kv == Kv::f16 ? t.attend_f16 : t.attend_bf16;
}
inline std::int64_t size_of(Kv kv) { return kv == Kv::f32 ? 4 : 2; }

inline float rounded(float x, Kv kv) {
  if (kv == Kv::f16) return tensor::f16_to_f32(tensor::f32_to_f16(x));
  if (kv == Kv::bf16) return tensor::bf16_to_f32(tensor::f32_to_bf16(x));
  return x;
}

/// One KV head of one sequence, and the queries of its group at every position: numbers that the format holds exactly.
struct Sequence {
  Kv kv;
  std::int64_t tokens, group, head_dim;
  Array<float> q;     // [tokens][group][head_dim]
  Array<float> k, v;  // [tokens][head_dim]
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
  return s;
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
  const std::int64_t size = size_of(s.kv), stride = align64(block_tokens * s.head_dim * size);
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
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      const std::int64_t block = c.table[t / block_tokens] * stride, slot = t % block_tokens;
      put(c.k.data() + block + (d * block_tokens + slot) * size, s.k[t * s.head_dim + d]);
      put(c.v.data() + block + (slot * s.head_dim + d) * size, s.v[t * s.head_dim + d]);
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
  Array<float> scratch((heads + 2 * s.head_dim) * kKeyTile);
  const std::int64_t key_end = std::min(key_begin + kKeySplit, first + rows);
  kernel_of(t, s.kv)({s.q.data() + first * q_stride,
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
