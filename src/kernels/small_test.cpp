// Norm, activation rounding, rotary, residual, SwiGLU, cache writes: near f64, and bit-equal on all levels.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kUnit = 0x1p-24;  // half an ulp of 1

TEST(RmsNorm, every_dim_is_near_f64_and_in_place_equals_out_of_place) {
  Rng rng(1);
  for (const std::int64_t dim : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 127, 576, 896, 1001}) {
    const auto x = random_floats(3 * dim, rng), gain = random_floats(dim, rng);
    const float eps = 1e-5f;
    Array<float> first(0);
    for (const Level& level : levels()) {
      Array<float> out(3 * dim);
      level.table.rms_norm_f32({x.data(), gain.data(), out.data(), 3, dim, eps});
      Array<float> in_place = x;
      level.table.rms_norm_f32({in_place.data(), gain.data(), in_place.data(), 3, dim, eps});
      ASSERT_TRUE(in_place.same_bits(out)) << level.name << " dim " << dim;
      if (first.size() == 0) first = out;
      ASSERT_TRUE(out.same_bits(first)) << level.name << " dim " << dim;
      for (std::int64_t r = 0; r < 3; ++r) {
        double sum = 0;
        for (std::int64_t i = 0; i < dim; ++i) sum += double(x[r * dim + i]) * x[r * dim + i];
        const double root = std::sqrt(sum / double(dim) + eps);
        for (std::int64_t i = 0; i < dim; ++i) {
          // Squares are positive: a lane's chain of dim/32 and 5 folds, a division and a sum, halved by the root;
          // then root, reciprocal and two products.
          const double want = x[r * dim + i] / root * gain[i];
          ASSERT_NEAR(out[r * dim + i], want, std::abs(want) * kUnit * (double(dim) / 64 + 9))
              << level.name << " dim " << dim;
        }
      }
    }
  }
}

TEST(QuantizeQ8, blocks_follow_the_stated_formula_and_their_sums_are_exact) {
  Rng rng(2);
  for (const std::int64_t rows : {1, 3})
    for (const std::int64_t k : {32, 64, 576}) {
      Array<float> x = random_floats(rows * k, rng, 3);
      for (int i = 0; i < 32; ++i) x[i] = 0;  // a block of zeros
      for (const Level& level : levels()) {
        Array<std::int8_t> q(rows * k);
        Array<float> scale(rows * k / 32);
        Array<std::int16_t> sum(rows * k / 16);
        level.table.quantize_q8({x.data(), q.data(), scale.data(), sum.data(), rows, k});
        for (std::int64_t b = 0; b < rows * k / 32; ++b) {
          float amax = 0;
          for (int i = 0; i < 32; ++i) amax = std::max(amax, std::abs(x[b * 32 + i]));
          std::int32_t want_sum[2] = {};
          for (int i = 0; i < 32; ++i) {
            const float want = amax > 0 ? std::nearbyint(x[b * 32 + i] * (127.0f / amax)) : 0;
            ASSERT_EQ(q[b * 32 + i], want)
                << level.name << " block " << b << " value " << x[b * 32 + i] << " of " << amax;
            want_sum[i / 16] += q[b * 32 + i];
          }
          ASSERT_TRUE(same_bits(scale[b], without_two_bits(amax / 127.0f))) << level.name;
          ASSERT_EQ(sum[b * 2], want_sum[0]) << level.name;
          ASSERT_EQ(sum[b * 2 + 1], want_sum[1]) << level.name;
        }
      }
    }
}

TEST(QuantizeQ8, nan_infinity_and_subnormals_stay_in_range_and_agree_on_all_levels) {
  const float hostile[] = {std::nanf(""), kInf, -kInf, 1e-45f, -1e-39f, 3e38f};
  for (const float bad : hostile)
    for (int at = 0; at < 32; ++at)
      for (const float rest : {0.0f, 1.0f, 1e-40f}) {
        Array<float> x(32, rest);
        x[at] = bad;
        Array<std::int8_t> first(0);
        for (const Level& level : levels()) {
          Array<std::int8_t> q(32);
          float scale;
          std::int16_t sum[2];
          level.table.quantize_q8({x.data(), q.data(), &scale, sum, 1, 32});
          if (first.size() == 0) first = q;
          EXPECT_TRUE(q.same_bits(first)) << level.name << " " << bad << " at " << at << " among " << rest;
          // Whatever its neighbours hold, and wherever it stands among them.
          Array<float> many(32 * 11, 0.5f);
          for (int b = 0; b < 11; b += 2) std::copy_n(x.data(), 32, many.data() + b * 32);
          Array<std::int8_t> many_q(32 * 11);
          Array<float> many_scales(11);
          Array<std::int16_t> many_sums(22);
          level.table.quantize_q8({many.data(), many_q.data(), many_scales.data(), many_sums.data(), 1, 32 * 11});
          for (int b = 0; b < 11; b += 2) {
            EXPECT_TRUE(std::equal(q.data(), q.data() + 32, many_q.data() + b * 32)) << level.name << " block " << b;
            EXPECT_TRUE(same_bits(many_scales[b], scale)) << level.name << " block " << b;
            EXPECT_TRUE(std::equal(sum, sum + 2, many_sums.data() + 2 * b)) << level.name << " block " << b;
          }
          std::int32_t want[2] = {};
          for (int i = 0; i < 32; ++i) {
            want[i / 16] += q[i];
            EXPECT_GE(q[i], -127) << level.name;
          }
          EXPECT_EQ(sum[0], want[0]) << level.name;
          EXPECT_EQ(sum[1], want[1]) << level.name;
        }
      }
}

TEST(ToBf16, every_upper_half_with_every_kind_of_lower_half_rounds_as_half_h_does) {
  const std::uint32_t lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  Array<float> x(65536 * 6);
  for (std::uint32_t i = 0; i < 65536 * 6; ++i) x[i] = std::bit_cast<float>((i / 6) << 16 | lower[i % 6]);
  for (const Level& level : levels()) {
    Array<std::uint16_t> out(x.size());
    level.table.to_bf16({x.data(), out.data(), x.size()});
    for (std::int64_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(out[i], tensor::f32_to_bf16(x[i])) << level.name << " " << std::bit_cast<std::uint32_t>(x[i]);
    for (std::int64_t n = 0; n < 20; ++n) {
      Array<std::uint16_t> part(n);
      level.table.to_bf16({x.data() + 6 * 0x3F80, part.data(), n});
      ASSERT_EQ(std::memcmp(part.data(), out.data() + 6 * 0x3F80, part.bytes()), 0) << level.name << " n " << n;
    }
  }
}

TEST(Rope, halves_are_rotated_by_the_stated_operations_and_the_rest_stays) {
  Rng rng(3);
  for (const std::int64_t head_dim : {32, 64, 80, 96, 128})
    for (const std::int64_t rot : {std::int64_t{2}, std::int64_t{10}, head_dim / 2, head_dim}) {
      const std::int64_t rows = 3, heads = 2, half = rot / 2;
      const auto x = random_floats(rows * heads * head_dim, rng), cos = random_floats(rows * half, rng),
                 sin = random_floats(rows * half, rng);
      Array<float> want = x;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t i = 0; i < half; ++i) {
            const std::int64_t at = (r * heads + h) * head_dim + i;
            const float c = cos[r * half + i], s = sin[r * half + i];
            want[at] = std::fma(x[at], c, -(x[at + half] * s));
            want[at + half] = std::fma(x[at + half], c, x[at] * s);
          }
      for (const Level& level : levels()) {
        Array<float> got = x;
        level.table.rope_f32({got.data(), cos.data(), sin.data(), rows, heads, head_dim, rot});
        ASSERT_TRUE(got.same_bits(want)) << level.name << " head_dim " << head_dim << " rot " << rot;
      }
    }
}

TEST(Add, every_length_is_exact_and_in_place_works_on_either_side) {
  Rng rng(4);
  for (std::int64_t n = 0; n < 70; ++n) {
    const auto a = random_floats(n, rng), b = random_floats(n, rng);
    for (const Level& level : levels()) {
      Array<float> out(n), left = a, right = b;
      level.table.add_f32({a.data(), b.data(), out.data(), n});
      level.table.add_f32({left.data(), b.data(), left.data(), n});
      level.table.add_f32({a.data(), right.data(), right.data(), n});
      for (std::int64_t i = 0; i < n; ++i) ASSERT_TRUE(same_bits(out[i], a[i] + b[i])) << level.name;
      ASSERT_TRUE(left.same_bits(out) && right.same_bits(out)) << level.name << " n " << n;
    }
  }
}

TEST(SwiGlu, the_whole_range_of_gates_is_near_f64_and_equal_on_all_levels) {
  std::vector<float> gates = {0.0f,  -0.0f,  kInf,  -kInf,  1e-45f, -1e-45f, 3e37f,   -3e38f,
                              88.0f, -88.0f, 88.8f, -88.8f, -87.4f, 104.0f,  -104.0f, -110.0f};
  for (float g = -120; g < 120; g += 0.0117f) gates.push_back(g);
  const auto n = static_cast<std::int64_t>(gates.size());
  Rng rng(5);
  const auto up = random_floats(n, rng);
  Array<float> first(0);
  for (const Level& level : levels()) {
    Array<float> out(n), in_place = up;
    level.table.swiglu_f32({gates.data(), up.data(), out.data(), n});
    level.table.swiglu_f32({gates.data(), in_place.data(), in_place.data(), n});
    ASSERT_TRUE(out.same_bits(in_place)) << level.name;
    if (first.size() == 0) first = out;
    ASSERT_TRUE(out.same_bits(first)) << level.name;
    for (std::int64_t i = 0; i < n; ++i) {
      const double g = gates[static_cast<std::size_t>(i)];
      if (std::isinf(g)) {
        ASSERT_EQ(out[i], g > 0 ? g * up[i] : 0.0) << level.name;
        continue;
      }
      // exp within 4, the sum, the quotient and the product one each: 7 units. Where exp(-g) overflows f32, silu(g) is
      // below 3e-37 and comes out as 0.
      const double want = g / (1 + std::exp(-g)) * up[i];
      ASSERT_NEAR(out[i], want, std::abs(want) * 7.001 * kUnit + 3e-37 * std::abs(up[i]))
          << level.name << " gate " << g;
    }
  }
  for (std::int64_t length = 0; length < 40; ++length)
    for (const Level& level : levels()) {
      Array<float> out(length);
      level.table.swiglu_f32({gates.data() + 100, up.data() + 100, out.data(), length});
      ASSERT_EQ(std::memcmp(out.data(), first.data() + 100, out.bytes()), 0) << level.name << " n " << length;
    }
}

/// Writes with the kernel and reads every element back from where params.h says it lies.
template <class T, class Narrow>
void check_kv_write(kv_write_f32_fn kernel, const std::string& name, std::int64_t block_tokens, std::int64_t head_dim,
                    std::int64_t first, std::int64_t rows, Rng& rng, Narrow narrow) {
  const std::int64_t stride = head_dim + 3, blocks = (first + rows + block_tokens - 1) / block_tokens;
  const std::int64_t block_elements = block_tokens * head_dim + 8;
  Array<float> k = random_floats(rows * stride, rng, 20000), v = random_floats(rows * stride, rng, 20000);
  k[0] = kInf, v[0] = -kInf;
  Array<std::int32_t> table(blocks);
  for (std::int64_t b = 0; b < blocks; ++b) table[b] = static_cast<std::int32_t>(blocks - 1 - b);
  const T untouched = static_cast<T>(77);
  Array<T> k_cache(blocks * block_elements, untouched), v_cache(blocks * block_elements, untouched);
  Array<T> k_want = k_cache, v_want = v_cache;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const std::int64_t block = table[(first + r) / block_tokens] * block_elements, slot = (first + r) % block_tokens;
      k_want[block + d * block_tokens + slot] = narrow(k[r * stride + d]);
      v_want[block + slot * head_dim + d] = narrow(v[r * stride + d]);
    }
  kernel({k.data(), v.data(), stride, rows, first, head_dim, reinterpret_cast<std::uint8_t*>(k_cache.data()),
          reinterpret_cast<std::uint8_t*>(v_cache.data()), table.data(), block_tokens,
          block_elements * static_cast<std::int64_t>(sizeof(T))});
  ASSERT_TRUE(k_cache.same_bits(k_want) && v_cache.same_bits(v_want))
      << name << " block_tokens " << block_tokens << " head_dim " << head_dim << " first " << first << " rows " << rows;
}

TEST(KvWrite, every_format_lands_where_attention_reads_it_and_nothing_else_changes) {
  Rng rng(6);
  for (const Level& level : levels())
    for (const std::int64_t block_tokens : {8, 16, 64})
      for (const std::int64_t head_dim : {32, 64, 80, 100})
        for (const std::int64_t first : {0, 5, 15})
          for (const std::int64_t rows : {1, 3, 8, 37}) {
            const auto check = [&]<class T>(auto kernel, const char* name, T, auto narrow) {
              check_kv_write<T>(kernel, level.name + " " + name, block_tokens, head_dim, first, rows, rng, narrow);
            };
            check(level.table.kv_write_f32, "f32", float{}, [](float x) { return x; });
            check(level.table.kv_write_bf16, "bf16", std::uint16_t{}, [](float x) { return tensor::f32_to_bf16(x); });
            check(level.table.kv_write_f16, "f16", std::uint16_t{},
                  [](float x) { return tensor::f32_to_f16(std::clamp(x, -65504.0f, 65504.0f)); });
          }
}

TEST(Roof, every_level_says_how_much_it_did) {
  const Array<std::uint8_t> memory(8192);
  for (const Level& level : levels()) {
    double operations = -1;
    level.table.roof_read({memory.data(), memory.size(), 0, &operations});
    EXPECT_EQ(operations, 8192) << level.name;
    for (const auto kernel : {level.table.roof_f32, level.table.roof_int8, level.table.roof_bf16}) {
      double few = -1, many = -1;
      kernel({nullptr, 0, 10, &few});
      kernel({nullptr, 0, 20, &many});
      EXPECT_EQ(many, 2 * few) << level.name;
    }
    level.table.roof_f32({nullptr, 0, 10, &operations});
    EXPECT_GT(operations, 0) << level.name;
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
