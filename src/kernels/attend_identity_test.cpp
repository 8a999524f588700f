// One query row of attention has one result: the same bits however rows are grouped, blocks are placed and foreign
// memory looks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/attend_test_support.h"

namespace millrace::kernels::testing {
namespace {

TEST(Attend, a_row_has_the_same_bits_alone_and_in_any_chunk) {
  Rng rng(4);
  for (const Kv kv : kKvTypes)
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
  for (const Kv kv : kKvTypes) {
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
  for (const Kv kv : kKvTypes) {
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
