// Integer products: exact against the sequence that params.h states, and near f64 within its rounding.

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {
namespace {

/// n x (32 blocks) weights and rows x (32 blocks) activations as integers and scales, in no kernel's layout.
struct Problem {
  IntKernel format;
  std::int64_t n, rows, blocks;
  Array<std::int16_t> code;        // [n][k]
  Array<std::int16_t> scale, min;  // [n][blocks][2], of a block's halves; 1 where the format has none
  Array<std::uint16_t> d, m;       // [n][blocks], equal within a super block
  Array<std::int8_t> a;            // [rows][k]
  Array<float> a_scale;            // [rows][blocks]
  Array<std::int16_t> a_sum;       // [rows][blocks][2]

  std::int64_t k() const { return blocks * 32; }
  int weight(std::int64_t i) const { return format.f.table ? kIq4Table[code[i]] : code[i] - format.f.offset; }
};

/// Not random: nearly every code at one end of its range, and scales and activations at their largest, so that any
/// narrow accumulator overflows.
enum class Codes { random, least, most };

Problem make_problem(const IntKernel& format, std::int64_t n, std::int64_t rows, std::int64_t blocks, Rng& rng,
                     Codes codes = Codes::random) {
  const bool extreme = codes != Codes::random;
  const IntFormat& f = format.f;
  Problem p{format,
            n,
            rows,
            blocks,
            Array<std::int16_t>(n * blocks * 32),
            Array<std::int16_t>(n * blocks * 2, 1),
            Array<std::int16_t>(n * blocks * 2, 1),
            Array<std::uint16_t>(n * blocks),
            Array<std::uint16_t>(n * blocks),
            Array<std::int8_t>(rows * blocks * 32),
            Array<float>(rows * blocks),
            Array<std::int16_t>(rows * blocks * 2)};
  const auto value = [&](std::int64_t least, std::int64_t most, bool mostly_least) {
    if (!extreme) return static_cast<std::int16_t>(pick(rng, least, most));
    return static_cast<std::int16_t>((pick(rng, 0, 31) != 0) == mostly_least ? least : most);
  };
  const std::int64_t least = 0, most = (1 << f.bits) - 1;
  for (auto& x : p.code) x = value(least, most, codes == Codes::least);
  for (std::int64_t g = 0; f.super && g < n * blocks * 2; g += f.group == 16 ? 1 : 2) {
    p.scale[g] = scales_are_signed(f) ? value(-f.most_scale, f.most_scale - 1, true) : value(0, f.most_scale, false);
    p.min[g] = value(0, f.most_scale, false);
    if (f.group == 32) p.scale[g + 1] = p.scale[g], p.min[g + 1] = p.min[g];
  }
  const std::int64_t shared = f.super ? 8 : 1;
  for (std::int64_t b = 0; b < n * blocks; ++b) {
    p.d[b] = b % shared ? p.d[b - 1] : tensor::f32_to_f16(static_cast<float>(pick(rng, -1000, 1000)) / 4096.0f);
    p.m[b] = b % shared ? p.m[b - 1] : tensor::f32_to_f16(static_cast<float>(pick(rng, -1000, 1000)) / 1024.0f);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto edge = static_cast<std::int8_t>(r % 2 ? -127 : 127);
    for (std::int64_t i = 0; i < p.k(); ++i)
      p.a[r * p.k() + i] = extreme ? edge : static_cast<std::int8_t>(pick(rng, -127, 127));
  }
  for (auto& x : p.a_scale) x = without_two_bits(static_cast<float>(pick(rng, 0, 1000)) / 3000.0f);
  for (std::int64_t i = 0; i < rows * p.k(); ++i) p.a_sum[i / 16] = static_cast<std::int16_t>(p.a_sum[i / 16] + p.a[i]);
  return p;
}

/// The panels of params.h, in order of its text.
struct Panels {
  Array<std::uint8_t> bytes;
  std::int64_t panel_bytes, count;
};

Panels pack(const Problem& p, int panel_rows) {
  const IntFormat& f = p.format.f;
  const std::int64_t units = f.super ? p.blocks / 8 : p.blocks, per_block = f.super ? 32 / f.group : 0;
  const bool nibbles = f.super && f.most_scale <= 15, has_min = f.has_min;
  const std::int64_t halves = units * panel_rows * 2, group_bytes = p.blocks * per_block * panel_rows;
  const std::int64_t group_scales = halves * (has_min ? 2 : 1), group_mins = group_scales + group_bytes;
  const std::int64_t data = align64(group_mins + (has_min && !nibbles ? group_bytes : 0));
  const std::int64_t panel_bytes = align64(data + p.blocks * f.bits * panel_rows * 4),
                     count = (p.n + panel_rows - 1) / panel_rows;
  Panels out{Array<std::uint8_t>(panel_bytes * count), panel_bytes, count};
  for (std::int64_t i = 0; i < p.n; ++i) {
    std::uint8_t* panel = out.bytes.data() + i / panel_rows * panel_bytes;
    const std::int64_t row = i % panel_rows;
    for (std::int64_t b = 0; b < p.blocks; ++b) {
      const std::int64_t at = i * p.blocks + b, unit = f.super ? b / 8 : b;
      std::memcpy(panel + (unit * panel_rows + row) * 2, &p.d[at], 2);
      if (has_min) std::memcpy(panel + halves + (unit * panel_rows + row) * 2, &p.m[at], 2);
      for (std::int64_t g = 0; g < per_block; ++g) {
        const std::int64_t to = (b * panel_rows + row) * per_block + g;
        const int scale = p.scale[at * 2 + g], min = p.min[at * 2 + g];
        panel[group_scales + to] = static_cast<std::uint8_t>(nibbles ? scale | min << 4 : scale);
        if (has_min && !nibbles) panel[group_mins + to] = static_cast<std::uint8_t>(min);
      }
      const std::int16_t* code = p.code.data() + at * 32;
      const auto put = [&](std::int64_t part, int j, int value) {
        auto& byte = panel[data + ((b * f.bits + part) * panel_rows + row) * 4 + j];
        byte = static_cast<std::uint8_t>(byte | value);
      };
      for (int e = 0; e < 32; ++e) {
        const int q = code[e], side = e / 16, s = e % 16 / 4, j = e % 4;
        if (f.bits == 8) put(e / 4, j, q & 255);
        if (f.bits == 4 || f.bits == 5 || f.bits == 6) put(s, j, (q & 15) << 4 * side);
        if (f.bits == 2 || f.bits == 3) put(s / 2, j, (q & 3) << (4 * (s % 2) + 2 * side));
        if (f.bits == 6) put(4 + s / 2, j, (q >> 4) << (4 * (s % 2) + 2 * side));
        if (f.bits == 5) put(4, j, (q >> 4) << (4 * side + s));
        if (f.bits == 3) put(2, j, (q >> 2) << (4 * side + s));
      }
    }
  }
  return out;
}

/// c[r, i] by the stated sequence; with `bound`, f64 in `exact` and what f32 may differ from it.
float stated(const Problem& p, std::int64_t r, std::int64_t i, double* exact = nullptr, double* bound = nullptr) {
  float f = 0;
  double sum = 0, norm = 0;
  for (std::int64_t b = 0; b < p.blocks; ++b) {
    const std::int64_t at = i * p.blocks + b, a_at = r * p.blocks + b;
    const bool halves = p.format.f.group == 16;  // their scales are part of the integers, others of d and m
    std::int32_t products = 0, mins = 0;
    for (int j = 0; j < 32; ++j) {
      products += (halves ? p.scale[at * 2 + j / 16] : 1) * p.weight(at * 32 + j) * p.a[a_at * 32 + j];
      mins += (halves ? p.min[at * 2 + j / 16] : 1) * p.a[a_at * 32 + j];
    }
    const float scale = p.a_scale[a_at];
    const float d = tensor::f16_to_f32(p.d[at]) * static_cast<float>(halves ? 1 : p.scale[at * 2]);
    const float m = tensor::f16_to_f32(p.m[at]) * static_cast<float>(halves ? 1 : p.min[at * 2]);
    f = std::fma(static_cast<float>(products) * scale, d, f);
    sum += double(products) * scale * d;
    norm += std::abs(double(products) * scale * d);
    if (p.format.f.has_min) {
      f = std::fma(static_cast<float>(mins) * scale, m, f);
      sum += double(mins) * scale * m;
      norm += std::abs(double(mins) * scale * m);
    }
  }
  // Each term is rounded once as a product, each of the (at most 2 per block) additions rounds a partial sum <= norm.
  if (exact) *exact = sum;
  if (bound) *bound = double(2 * p.blocks + 1) * 0x1p-24 * 1.001 * norm + 1e-37;
  return f;
}

/// Runs `rows` rows from `row` and the first `n` outputs; beyond them c keeps its sentinel.
Array<float> run(const Level& level, const Problem& p, const Panels& w, std::int64_t row, std::int64_t rows,
                 std::int64_t n) {
  const std::int64_t stride = n + 3;
  Array<float> c(rows * stride, -7.0f);
  (level.table.*p.format.kernel)({p.a.data() + row * p.k(), p.a_scale.data() + row * p.blocks,
                                  p.a_sum.data() + row * p.blocks * 2, rows, p.blocks, w.bytes.data(), w.panel_bytes,
                                  (n + level.table.panel_rows - 1) / level.table.panel_rows, c.data(), stride, n});
  return c;
}

TEST(GemmInt, every_shape_gives_the_stated_sequence_bit_for_bit_and_stays_near_f64) {
  Rng rng(1);
  for (const IntKernel& format : kIntFormats)
    for (std::int64_t blocks : {1, 2, 3, 7, 18}) {
      if (format.f.super && blocks > 3) continue;
      if (format.f.super) blocks *= 8;
      const std::int64_t most_rows = 33, most_n = 16 * 9 + 5;
      const Problem p = make_problem(format, most_n, most_rows, blocks, rng);
      Array<float> want(most_rows * most_n);
      for (std::int64_t r = 0; r < most_rows; ++r)
        for (std::int64_t i = 0; i < most_n; ++i) {
          double exact, bound;
          want[r * most_n + i] = stated(p, r, i, &exact, &bound);
          ASSERT_NEAR(want[r * most_n + i], exact, bound);
        }
      for (const Level& level : levels_with_own(format.kernel)) {
        const Panels w = pack(p, level.table.panel_rows);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 17, 33})
          for (const std::int64_t n : {1, 7, 8, 9, 15, 17, 31, 40, 64, 65, 128, 149}) {
            const Array<float> c = run(level, p, w, 0, rows, n);
            for (std::int64_t r = 0; r < rows; ++r) {
              for (std::int64_t i = 0; i < n; ++i)
                ASSERT_TRUE(same_bits(c[r * (n + 3) + i], want[r * most_n + i]))
                    << level.name << " " << format.name << " rows " << rows << " n " << n << " blocks " << blocks
                    << " at " << r << "," << i << ": " << c[r * (n + 3) + i] << " want " << want[r * most_n + i];
              for (std::int64_t i = n; i < n + 3; ++i)
                ASSERT_EQ(c[r * (n + 3) + i], -7.0f) << level.name << " wrote beyond n";
            }
          }
      }
    }
}

// What q8_act may hold at most, against the largest weights, -128 among them: sums that do not fit in 16 bits twice
// over.
TEST(GemmInt, the_largest_weights_and_activations_do_not_overflow) {
  Rng rng(2);
  for (const IntKernel& format : kIntFormats)
    for (const Codes codes : {Codes::least, Codes::most}) {
      const Problem p = make_problem(format, 33, 5, format.f.super ? 8 : 3, rng, codes);
      for (const Level& level : levels_with_own(format.kernel)) {
        const Array<float> c = run(level, p, pack(p, level.table.panel_rows), 0, 5, 33);
        for (std::int64_t r = 0; r < 5; ++r)
          for (std::int64_t i = 0; i < 33; ++i)
            ASSERT_TRUE(same_bits(c[r * 36 + i], stated(p, r, i)))
                << level.name << " " << format.name << " " << r << "," << i;
      }
    }
}

TEST(GemmInt, a_row_has_the_same_bits_alone_and_among_many_even_when_they_do_not_fit_a_cache) {
  Rng rng(3);
  for (const IntKernel& format : kIntFormats) {
    const Problem p = make_problem(format, 21, 300, 112, rng);  // 1 MiB of activations: several chunks on every level
    for (const Level& level : levels_with_own(format.kernel)) {
      const Panels w = pack(p, level.table.panel_rows);
      const Array<float> all = run(level, p, w, 0, 300, 21);
      for (const std::int64_t r : {0, 1, 5, 31, 32, 35, 36, 37, 71, 72, 73, 143, 144, 287, 288, 289, 298, 299}) {
        const Array<float> one = run(level, p, w, r, 1, 21);
        ASSERT_EQ(std::memcmp(one.data(), all.data() + r * 24, 21 * sizeof(float)), 0)
            << level.name << " " << format.name << " row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
