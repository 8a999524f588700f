// The INT8 KV cache as it is written: codes and scales where attention looks for them, near what they stand for, the
// same bits on all levels (A14). attend_test has the other half.

#include "kernels/kv_int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attend_test_support.h"

namespace millrace::kernels::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The slow, obvious rounding of values that share a scale, of K in bf16.
struct Int8Values {
  std::vector<std::int8_t> codes;
  float scale;
};
Int8Values rounded_values(const float* x, std::int64_t n, bool short_scale) {
  float amax = 0;
  for (std::int64_t d = 0; d < n; ++d) amax = std::max(amax, std::min(std::abs(x[d]), 65504.0f));
  if (amax < 0x1p-100f) return {std::vector<std::int8_t>(static_cast<std::size_t>(n)), 0};
  Int8Values out{{}, amax / 127};
  float to_code = 127 / amax;
  if (short_scale) {
    out.scale = tensor::bf16_to_f32(tensor::f32_to_bf16(amax / 127));
    if (out.scale < amax / 127) out.scale = std::bit_cast<float>(std::bit_cast<std::uint32_t>(out.scale) + 0x10000);
    to_code = 1 / out.scale;
  }
  for (std::int64_t d = 0; d < n; ++d)
    out.codes.push_back(static_cast<std::int8_t>(std::nearbyint(std::clamp(x[d] * to_code, -127.0f, 127.0f))));
  return out;
}

/// Rows [first, first + rows) into a cache that is full of 0x4D before.
struct Write {
  std::int64_t block_tokens, head_dim, first, rows;
  std::int64_t stride() const { return head_dim + 3; }
  std::int64_t blocks() const { return (first + rows + block_tokens - 1) / block_tokens; }
  std::int64_t block_stride() const { return block_bytes(Kv::int8, block_tokens, head_dim) + 8; }
  std::int32_t block(std::int64_t position) const {
    return static_cast<std::int32_t>(blocks() - 1 - position / block_tokens);
  }
};

struct Written {
  Array<std::uint8_t> k, v;
};

Written write(const KernelTable& table, const Write& w, const Array<float>& k, const Array<float>& v) {
  Array<std::int32_t> blocks(w.blocks());
  for (std::int64_t b = 0; b < w.blocks(); ++b) blocks[b] = w.block(b * w.block_tokens);
  Written out{Array<std::uint8_t>(w.blocks() * w.block_stride(), 0x4D),
              Array<std::uint8_t>(w.blocks() * w.block_stride(), 0x4D)};
  table.kv_write_int8({k.data(), v.data(), w.stride(), w.rows, w.first, w.head_dim, out.k.data(), out.v.data(),
                       blocks.data(), w.block_tokens, w.block_stride()});
  return out;
}

Written expected(const Write& w, const Array<float>& k, const Array<float>& v) {
  Written out{Array<std::uint8_t>(w.blocks() * w.block_stride(), 0x4D),
              Array<std::uint8_t>(w.blocks() * w.block_stride(), 0x4D)};
  for (std::int64_t r = 0; r < w.rows; ++r) {
    const std::int64_t slot = (w.first + r) % w.block_tokens, at = w.block(w.first + r) * w.block_stride();
    const std::int64_t half = w.head_dim / 2;
    const float* k_row = k.data() + r * w.stride();
    Int8Values key = rounded_values(k_row, half, true);
    const Int8Values upper = rounded_values(k_row + half, w.head_dim - half, true),
                     value = rounded_values(v.data() + r * w.stride(), w.head_dim, false);
    key.codes.insert(key.codes.end(), upper.codes.begin(), upper.codes.end());
    for (std::int64_t d = 0; d < w.head_dim; ++d) {
      out.k[at + d * w.block_tokens + slot] = static_cast<std::uint8_t>(key.codes[static_cast<std::size_t>(d)]);
      out.v[at + slot * w.head_dim + d] = static_cast<std::uint8_t>(value.codes[static_cast<std::size_t>(d)]);
    }
    const std::int64_t scales = at + w.block_tokens * w.head_dim + slot * kKvScaleBytes;
    const std::uint16_t key_scales[2] = {tensor::f32_to_bf16(key.scale), tensor::f32_to_bf16(upper.scale)};
    std::memcpy(out.k.data() + scales, key_scales, sizeof(key_scales));
    std::memcpy(out.v.data() + scales, &value.scale, sizeof(float));
  }
  return out;
}

TEST(KvInt8, codes_and_scales_land_where_attention_reads_them_and_nothing_else_changes) {  // A14
  Rng rng(1);
  for (const std::int64_t block_tokens : {8, 16, 64})
    for (const std::int64_t head_dim : {1, 13, 32, 64, 80, 100})
      for (const std::int64_t first : {0, 5, 15})
        for (const std::int64_t rows : {1, 3, 8, 37}) {
          const Write w{block_tokens, head_dim, first, rows};
          Array<float> k = random_floats(rows * w.stride(), rng, 3), v = random_floats(rows * w.stride(), rng, 0.01f);
          k[0] = kInf, v[0] = -70000;                                         // held to 65504
          for (std::int64_t d = 0; d < head_dim; ++d) {                       // the last row
            k[(rows - 1) * w.stride() + d] = d % 2 ? -0.0f : 0.0f;            // scale 0, and exact
            v[(rows - 1) * w.stride() + d] = d % 2 ? 0x1p-101f : -0x1p-140f;  // as good as 0
          }
          const Written want = expected(w, k, v);
          for (const Level& level : levels()) {
            const Written got = write(level.table, w, k, v);
            ASSERT_TRUE(got.k.same_bits(want.k) && got.v.same_bits(want.v))
                << level.name << " block_tokens " << block_tokens << " head_dim " << head_dim << " first " << first
                << " rows " << rows;
          }
        }
}

TEST(KvInt8, a_code_times_its_scale_is_within_half_a_scale) {  // A14
  Rng rng(2);
  for (const float spread : {1e-20f, 1e-3f, 1.0f, 300.0f}) {
    const Write w{16, 64, 0, 16};
    const Array<float> k = random_floats(16 * w.stride(), rng, spread), v = random_floats(16 * w.stride(), rng, spread);
    for (const Level& level : levels()) {
      const Written got = write(level.table, w, k, v);
      for (std::int64_t t = 0; t < 16; ++t) {
        std::uint16_t scales[2];
        std::memcpy(scales, got.k.data() + (64 * 16 + t * 4), sizeof(scales));
        for (std::int64_t d = 0; d < 64; ++d) {
          const double scale = tensor::bf16_to_f32(scales[d / 32]);
          const double bound = scale * (0.5 + 127 * 2 * 0x1p-24);  // two roundings on the way to a code of at most 127
          const auto code = static_cast<std::int8_t>(got.k[d * 16 + t]);
          ASSERT_NEAR(code * scale, k[t * w.stride() + d], bound) << level.name << " spread " << spread;
        }
      }
    }
  }
}

TEST(KvInt8, a_nan_is_not_lost) {
  Rng rng(3);
  const Write w{16, 40, 2, 9};
  Array<float> k = random_floats(9 * w.stride(), rng), v = random_floats(9 * w.stride(), rng);
  k[4 * w.stride() + 33] = kNan, v[7 * w.stride()] = -kNan;
  for (const Level& level : levels()) {
    const Written got = write(level.table, w, k, v);
    for (std::int64_t r = 0; r < 9; ++r) {
      std::uint16_t key[2];
      float value;
      std::memcpy(key, got.k.data() + 40 * 16 + (2 + r) * 4, sizeof(key));
      std::memcpy(&value, got.v.data() + 40 * 16 + (2 + r) * 4, sizeof(value));
      EXPECT_FALSE(std::isnan(tensor::bf16_to_f32(key[0]))) << level.name << " row " << r;
      EXPECT_EQ(std::isnan(tensor::bf16_to_f32(key[1])), r == 4) << level.name << " row " << r;
      EXPECT_EQ(std::isnan(value), r == 7) << level.name << " row " << r;
    }
  }
}

// Written by one kernel and read by the other: attention over rounded keys and values is that over what they stand for.
TEST(KvInt8, attention_over_what_was_written_is_near_that_over_the_values_themselves) {  // A14
  Rng rng(4);
  constexpr std::int64_t kTokens = 200, kDim = 64;
  Sequence s = make_sequence(Kv::f32, kTokens, 3, kDim, rng);
  const Write w{32, kDim, 0, kTokens};
  Array<float> k(kTokens * w.stride()), v(kTokens * w.stride());
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t d = 0; d < kDim; ++d)
      k[t * w.stride() + d] = s.k[t * kDim + d], v[t * w.stride() + d] = s.v[t * kDim + d];
  const Array<float> exact = attend(levels().front().table, s, make_cache(s, 32), kTokens - 4, 4);
  s.kv = Kv::int8;
  Array<float> first(0);
  for (const Level& level : levels()) {
    Written written = write(level.table, w, k, v);
    Cache c{written.k, written.v, Array<std::int32_t>(w.blocks()), 32, w.block_stride()};
    for (std::int64_t b = 0; b < w.blocks(); ++b) c.table[b] = w.block(b * 32);
    const Array<float> got = attend(level.table, s, c, kTokens - 4, 4);
    if (first.size() == 0) first = got;
    ASSERT_TRUE(got.same_bits(first)) << level.name;
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i < got.size(); ++i)
      error += std::pow(got[i] - exact[i], 2), norm += std::pow(exact[i], 2);
    // An element is off by scale / sqrt(12), and a scale is some 2.5 / 127 of an element: 0.6 % of values. Scores are
    // off by as much of their own spread, and weights by that.
    EXPECT_LE(std::sqrt(error / norm), 0.02) << level.name;
    EXPECT_GT(error, 0) << level.name;
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
