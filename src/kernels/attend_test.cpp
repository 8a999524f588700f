// Attention over a paged cache: near f64 for all shapes, and the same bits however rows are grouped, blocks are placed
// and foreign memory looks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {
namespace {

enum class Kv { f32, f16, bf16 };
constexpr Kv kAll[] = {Kv::f32, Kv::f16, Kv::bf16};
constexpr float kInf = std::numeric_limits<float>::infinity();

attend_f32_fn kernel_of(const KernelTable& t, Kv kv) {
  return kv == Kv::f32 ? t.attend_f32 : kv == Kv::f16 ? t.attend_f16 : t.attend_bf16;
}
std::int64_t size_of(Kv kv) { return kv == Kv::f32 ? 4 : 2; }

float rounded(float x, Kv kv) {
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

Sequence make_sequence(Kv kv, std::int64_t tokens, std::int64_t group, std::int64_t head_dim, Rng& rng,
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

Cache make_cache(const Sequence& s, std::int64_t block_tokens, const std::vector<std::int32_t>& order,
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

Cache make_cache(const Sequence& s, std::int64_t block_tokens) {
  std::vector<std::int32_t> order(static_cast<std::size_t>((s.tokens + block_tokens - 1) / block_tokens));
  std::iota(order.rbegin(), order.rend(), 0);
  return make_cache(s, block_tokens, order);
}

struct Partial {
  Array<float> m, l, o;
};

/// Rows [first, first + rows) against one split.
Partial attend_split(const KernelTable& t, const Sequence& s, const Cache& c, std::int64_t first, std::int64_t rows,
                     std::int64_t key_begin, std::int64_t window) {
  const std::int64_t heads = rows * s.group, q_stride = s.group * s.head_dim;
  Partial out{Array<float>(heads, 5.0f), Array<float>(heads, 5.0f), Array<float>(heads * s.head_dim, 5.0f)};
  Array<float> scratch(heads * kKeyTile);
  const std::int64_t key_end = std::min(key_begin + kKeySplit, first + rows);
  kernel_of(t, s.kv)({s.q.data() + first * q_stride, q_stride, rows, s.group, s.head_dim, first, key_begin, key_end,
                      window, 1.0f / std::sqrt(static_cast<float>(s.head_dim)), c.k.data(), c.v.data(), c.table.data(),
                      c.block_tokens, c.block_stride, out.m.data(), out.l.data(), out.o.data(), scratch.data()});
  return out;
}

/// [rows, group, head_dim], all splits merged.
Array<float> attend(const KernelTable& t, const Sequence& s, const Cache& c, std::int64_t first, std::int64_t rows,
                    std::int64_t window = 0) {
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

/// f64 attention of rows [first, first + rows) against every level, bits included.
void check(const Sequence& s, const Cache& c, std::int64_t first, std::int64_t rows, std::int64_t window,
           const std::string& what) {
  const double unit = 0x1p-24, scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  std::vector<Array<float>> got;
  for (const Level& level : levels()) {
    got.push_back(attend(level.table, s, c, first, rows, window));
    ASSERT_TRUE(got.back().same_bits(got.front())) << level.name << " differs from generic: " << what;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t h = 0; h < s.group; ++h) {
      const float* q = s.q.data() + ((first + r) * s.group + h) * s.head_dim;
      const std::int64_t end = first + r + 1, begin = window ? std::max<std::int64_t>(0, end - window) : 0;
      std::vector<double> score(static_cast<std::size_t>(end - begin));
      double most = -kInf, least = kInf, score_error = 0;
      for (std::int64_t t = begin; t < end; ++t) {
        double dot = 0, norm = 0;
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          dot += double(q[d]) * s.k[t * s.head_dim + d];
          norm += std::abs(double(q[d]) * s.k[t * s.head_dim + d]);
        }
        score[static_cast<std::size_t>(t - begin)] = dot * scale;
        most = std::max(most, dot * scale), least = std::min(least, dot * scale);
        // head_dim additions of partial sums <= norm, one product.
        score_error = std::max(score_error, double(s.head_dim + 1) * unit * norm * scale);
      }
      // A weight exp(s - m): its score's error, the rounding of s - m, exp itself (4 units). Then it is scaled once per
      // tile and split by another such factor, and summed with up to end - begin others. Twice: above and below the
      // line.
      const double tiles = double(end) / kKeyTile + 2;
      const double relative =
          score_error + unit * ((most - least) + 4) * (tiles + 1) + unit * (double(end - begin) + 2 * tiles);
      double sum = 0;
      for (double& x : score) sum += x = std::exp(x - most);
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        double want = 0, norm = 0;
        for (std::int64_t t = begin; t < end; ++t) {
          want += score[static_cast<std::size_t>(t - begin)] * s.v[t * s.head_dim + d];
          norm += score[static_cast<std::size_t>(t - begin)] * std::abs(s.v[t * s.head_dim + d]);
        }
        ASSERT_NEAR(got.front()[(r * s.group + h) * s.head_dim + d], want / sum, 2.01 * relative * norm / sum + 1e-30)
            << what << " row " << first + r << " head " << h << " dim " << d;
      }
    }
}

TEST(Attend, every_head_dim_group_and_block_size_is_near_f64) {
  Rng rng(1);
  for (const Kv kv : kAll)
    for (const std::int64_t head_dim : {32, 64, 80, 96, 128, 1, 13})
      for (std::int64_t group = 1; group <= 7; ++group) {
        const std::int64_t tokens = pick(rng, 1, 150), rows = pick(rng, 1, std::min<std::int64_t>(tokens, 9));
        const Sequence s = make_sequence(kv, tokens, group, head_dim, rng);
        for (const std::int64_t block_tokens : {8, 16, 32, 64, 256})
          check(s, make_cache(s, block_tokens), tokens - rows, rows, 0,
                "head_dim " + std::to_string(head_dim) + " group " + std::to_string(group) + " tokens " +
                    std::to_string(tokens) + " rows " + std::to_string(rows) + " block_tokens " +
                    std::to_string(block_tokens));
      }
}

TEST(Attend, every_length_from_1_to_257_and_long_ones_are_near_f64) {  // P11
  Rng rng(2);
  const Sequence s = make_sequence(Kv::f16, 257, 2, 32, rng, 3);
  const Cache c = make_cache(s, 16);
  check(s, c, 0, 257, 0, "all rows at once");
  for (std::int64_t length = 1; length <= 257; ++length)
    check(s, c, length - 1, 1, 0, "length " + std::to_string(length));
  const Sequence longer = make_sequence(Kv::f16, 2100, 3, 64, rng);
  const Cache cache = make_cache(longer, 32);
  for (const std::int64_t length : {511, 512, 513, 1024, 1025, 1600, 2100})
    check(longer, cache, length - 1, 1, 0, "length " + std::to_string(length));
}

TEST(Attend, a_window_hides_what_is_older) {
  Rng rng(3);
  const Sequence s = make_sequence(Kv::f16, 700, 3, 64, rng);
  const Cache c = make_cache(s, 16);
  for (const std::int64_t window : {1, 2, 7, 63, 64, 65, 200, 512, 600, 1000})
    for (const std::int64_t first : {0, 60, 130, 505, 690})
      check(s, c, first, 10, window, "window " + std::to_string(window));
}

TEST(Attend, a_row_has_the_same_bits_alone_and_in_any_chunk) {
  Rng rng(4);
  for (const Kv kv : kAll)
    for (const std::int64_t group : {1, 3, 7}) {
      const Sequence s = make_sequence(kv, 200, group, 64, rng);
      const Cache c = make_cache(s, 16);
      for (const Level& level : levels())
        for (const std::int64_t window : {0, 50}) {
          const Array<float> all = attend(level.table, s, c, 0, 200, window);
          for (std::int64_t first = 0; first < 200;) {
            const std::int64_t rows = std::min<std::int64_t>(pick(rng, 1, 13), 200 - first);
            const Array<float> part = attend(level.table, s, c, first, rows, window);
            ASSERT_EQ(std::memcmp(part.data(), all.data() + first * group * 64, part.bytes()), 0)
                << level.name << " rows " << first << "+" << rows << " window " << window;
            first += rows;
          }
        }
    }
}

TEST(Attend, any_order_of_physical_blocks_gives_the_same_bits) {  // A15
  Rng rng(5);
  for (const Kv kv : kAll) {
    const Sequence s = make_sequence(kv, 333, 3, 64, rng);
    for (const Level& level : levels()) {
      Array<float> first(0);
      for (const std::int64_t block_tokens : {8, 16, 32, 64, 128})
        for (int shuffle = 0; shuffle < 4; ++shuffle) {
          std::vector<std::int32_t> order(static_cast<std::size_t>(333 / block_tokens + 5));  // spare blocks in between
          std::iota(order.begin(), order.end(), 0);
          std::shuffle(order.begin(), order.end(), rng);
          const Array<float> out = attend(level.table, s, make_cache(s, block_tokens, order), 329, 4);
          if (first.size() == 0) first = out;
          ASSERT_TRUE(out.same_bits(first)) << level.name << " block_tokens " << block_tokens << " shuffle " << shuffle;
        }
    }
  }
}

TEST(Attend, what_lies_beyond_a_rows_own_keys_has_no_influence) {
  Rng rng(6);
  // NaN, infinity, minus infinity, zero, minus zero, and the largest number, as f32 or as two halves.
  const std::uint32_t fillers[] = {0x7FFF7FFF, 0x7F800000, 0x7C007C00, 0x7F807F80, 0xFF800000,
                                   0xFC00FC00, 0xFF80FF80, 0,          0x80008000, 0x7F7F7F7F};
  for (const Kv kv : kAll) {
    Sequence s = make_sequence(kv, 77, 3, 40, rng);
    for (std::int64_t d = 0; d < 40; d += 3)
      for (std::int64_t t = 0; t < 77; ++t)
        s.v[t * 40 + d] = -0.0f;  // sums of -0, which a stray 0 * 0 would turn into +0
    std::vector<std::int32_t> order(10);
    std::iota(order.begin(), order.end(), 0);
    for (const Level& level : levels()) {
      Array<float> first(0);
      for (const std::uint32_t filler : fillers) {
        const Array<float> out = attend(level.table, s, make_cache(s, 8, order, filler), 74, 3);
        if (first.size() == 0) first = out;
        ASSERT_TRUE(out.same_bits(first)) << level.name << " filler " << filler;
      }
      // Rows that a chunk has in common read each other's keys from memory, too: poison all but row 40's own.
      const Array<float> clean = attend(level.table, s, make_cache(s, 16), 40, 1);
      Sequence poisoned = s;
      for (std::int64_t i = 41 * 40; i < 77 * 40; ++i) poisoned.k[i] = poisoned.v[i] = i % 2 ? kInf : std::nanf("");
      const Array<float> among = attend(level.table, poisoned, make_cache(poisoned, 16), 38, 6);
      ASSERT_EQ(std::memcmp(among.data() + 2 * 3 * 40, clean.data(), clean.bytes()), 0) << level.name;
      // ... and with a window, keys that are too old.
      const Array<float> windowed = attend(level.table, s, make_cache(s, 16), 40, 1, 10);
      Sequence old = s;
      for (std::int64_t i = 0; i < 31 * 40; ++i) old.k[i] = old.v[i] = i % 2 ? -kInf : std::nanf("");
      const Array<float> with_old = attend(level.table, old, make_cache(old, 16), 38, 6, 10);
      ASSERT_EQ(std::memcmp(with_old.data() + 2 * 3 * 40, windowed.data(), windowed.bytes()), 0) << level.name;
    }
  }
}

TEST(Attend, blocks_after_the_last_own_key_are_never_looked_up) {
  Rng rng(7);
  for (const std::int64_t tokens : {1, 7, 8, 9, 17, 100}) {
    const Sequence s = make_sequence(Kv::f16, tokens, 3, 64, rng);
    Cache c = make_cache(s, 8);  // its table ends with the last block in use: ASan sees a look beyond
    for (const Level& level : levels()) attend(level.table, s, c, tokens - 1, 1);
    for (std::int64_t b = 0; b < c.table.size() - 2; ++b) c.table[b] = 1 << 30;  // blocks that a window has freed
    for (const Level& level : levels()) attend(level.table, s, c, tokens - 1, 1, 3);
  }
}

TEST(Attend, a_row_without_own_keys_leaves_an_empty_partial) {
  Rng rng(8);
  const Sequence s = make_sequence(Kv::f32, 516, 3, 64, rng);
  const Cache c = make_cache(s, 16);
  for (const Level& level : levels()) {
    const Partial part =
        attend_split(level.table, s, c, 509, 7, 512, 0);  // rows 509..511 see nothing of keys 512 and later
    for (std::int64_t i = 0; i < 3 * 3; ++i) {
      EXPECT_EQ(part.m[i], -kInf) << level.name;
      EXPECT_EQ(part.l[i], 0.0f) << level.name;
      for (int d = 0; d < 64; ++d) EXPECT_TRUE(same_bits(part.o[i * 64 + d], 0.0f)) << level.name;
    }
    EXPECT_GT(part.l[3 * 3], 0.9f) << level.name;
  }
}

TEST(Attend, merging_skips_empty_partials_and_nothing_but_empty_ones_gives_zero) {
  const std::int64_t dim = 20;
  Array<float> m(3, -kInf), l(3), o(3 * dim, std::nanf("")), out(dim);
  for (const Level& level : levels()) {
    level.table.merge_partials({m.data(), l.data(), o.data(), 3, 1, dim, dim, out.data()});
    for (const float x : out) EXPECT_EQ(x, 0.0f) << level.name;
  }
  m[1] = 3, l[1] = 2;
  for (std::int64_t d = 0; d < dim; ++d) o[dim + d] = static_cast<float>(d);
  for (const Level& level : levels()) {
    level.table.merge_partials({m.data(), l.data(), o.data(), 3, 1, dim, dim, out.data()});
    for (std::int64_t d = 0; d < dim; ++d) EXPECT_EQ(out[d], static_cast<float>(d) / 2) << level.name;
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
