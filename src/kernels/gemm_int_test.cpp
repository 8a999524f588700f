// Integer products: exact against the sequence that params.h states, and near f64 within its rounding.

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {
namespace {

enum class Format { q4_0, q4_1, q8_0 };
constexpr Format kFormats[] = {Format::q4_0, Format::q4_1, Format::q8_0};
constexpr const char* kNames[] = {"q4_0", "q4_1", "q8_0"};

gemm_q4_0_fn kernel_of(const KernelTable& t, Format f) {
  return f == Format::q4_0 ? t.gemm_q4_0 : f == Format::q4_1 ? t.gemm_q4_1 : t.gemm_q8_0;
}

/// n x (32 blocks) weights and rows x (32 blocks) activations as integers and scales, in no kernel's layout.
struct Problem {
  Format format;
  std::int64_t n, rows, blocks;
  Array<std::int16_t> w;      // [n][k]: 0..15, or -128..127
  Array<std::uint16_t> d, m;  // [n][blocks]
  Array<std::int8_t> a;       // [rows][k]
  Array<float> a_scale;       // [rows][blocks]
  Array<std::int32_t> a_sum;

  std::int64_t k() const { return blocks * 32; }
};

/// `extreme`: the largest magnitudes everywhere, so that any narrow accumulator overflows.
Problem make_problem(Format format, std::int64_t n, std::int64_t rows, std::int64_t blocks, Rng& rng,
                     bool extreme = false) {
  Problem p{format,
            n,
            rows,
            blocks,
            Array<std::int16_t>(n * blocks * 32),
            Array<std::uint16_t>(n * blocks),
            Array<std::uint16_t>(n * blocks),
            Array<std::int8_t>(rows * blocks * 32),
            Array<float>(rows * blocks),
            Array<std::int32_t>(rows * blocks)};
  const bool wide = format == Format::q8_0;
  const std::int64_t least = wide ? -128 : 0, most = wide ? 127 : 15;
  for (auto& x : p.w)
    x = static_cast<std::int16_t>(extreme ? (pick(rng, 0, 7) ? (wide ? least : most) : most) : pick(rng, least, most));
  for (auto& x : p.d) x = tensor::f32_to_f16(static_cast<float>(pick(rng, -1000, 1000)) / 4096.0f);
  for (auto& x : p.m) x = tensor::f32_to_f16(static_cast<float>(pick(rng, -1000, 1000)) / 1024.0f);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto edge = static_cast<std::int8_t>(r % 2 ? -127 : 127);
    for (std::int64_t i = 0; i < p.k(); ++i)
      p.a[r * p.k() + i] = extreme ? edge : static_cast<std::int8_t>(pick(rng, -127, 127));
    for (std::int64_t b = 0; b < blocks; ++b) {
      p.a_scale[r * blocks + b] = static_cast<float>(pick(rng, 0, 1000)) / 3000.0f;
      for (int j = 0; j < 32; ++j) p.a_sum[r * blocks + b] += p.a[(r * blocks + b) * 32 + j];
    }
  }
  return p;
}

/// The panels of params.h, in order of its text.
struct Panels {
  Array<std::uint8_t> bytes;
  std::int64_t panel_bytes, count;
};

Panels pack(const Problem& p, int panel_rows) {
  const bool wide = p.format == Format::q8_0;
  const std::int64_t halves = p.blocks * panel_rows * 2, steps = wide ? 8 : 4;
  const std::int64_t data = align64(halves * (p.format == Format::q4_1 ? 2 : 1));
  const std::int64_t panel_bytes = align64(data + p.blocks * steps * panel_rows * 4),
                     count = (p.n + panel_rows - 1) / panel_rows;
  Panels out{Array<std::uint8_t>(panel_bytes * count), panel_bytes, count};
  for (std::int64_t i = 0; i < p.n; ++i) {
    std::uint8_t* panel = out.bytes.data() + i / panel_rows * panel_bytes;
    const std::int64_t row = i % panel_rows;
    for (std::int64_t b = 0; b < p.blocks; ++b) {
      std::memcpy(panel + (b * panel_rows + row) * 2, &p.d[i * p.blocks + b], 2);
      if (p.format == Format::q4_1) std::memcpy(panel + halves + (b * panel_rows + row) * 2, &p.m[i * p.blocks + b], 2);
      const std::int16_t* w = p.w.data() + (i * p.blocks + b) * 32;
      for (int s = 0; s < steps; ++s)
        for (int j = 0; j < 4; ++j)
          panel[data + ((b * steps + s) * panel_rows + row) * 4 + j] =
              static_cast<std::uint8_t>(wide ? w[4 * s + j] & 0xFF : w[4 * s + j] | w[16 + 4 * s + j] << 4);
    }
  }
  return out;
}

/// c[r, i] by the stated sequence; with `bound`, f64 in `exact` and what f32 may differ from it.
float stated(const Problem& p, std::int64_t r, std::int64_t i, double* exact = nullptr, double* bound = nullptr) {
  float f = 0;
  double sum = 0, norm = 0;
  for (std::int64_t b = 0; b < p.blocks; ++b) {
    std::int32_t dot = 0;
    for (int j = 0; j < 32; ++j) dot += p.w[i * p.k() + b * 32 + j] * p.a[r * p.k() + b * 32 + j];
    const std::int32_t a_sum = p.a_sum[r * p.blocks + b];
    const float scale = p.a_scale[r * p.blocks + b], d = tensor::f16_to_f32(p.d[i * p.blocks + b]),
                m = tensor::f16_to_f32(p.m[i * p.blocks + b]);
    if (p.format == Format::q4_0) dot -= 8 * a_sum;
    f = std::fma(static_cast<float>(dot) * scale, d, f);
    sum += double(dot) * scale * d;
    norm += std::abs(double(dot) * scale * d);
    if (p.format == Format::q4_1) {
      f = std::fma(static_cast<float>(a_sum) * scale, m, f);
      sum += double(a_sum) * scale * m;
      norm += std::abs(double(a_sum) * scale * m);
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
  kernel_of(level.table, p.format)({p.a.data() + row * p.k(), p.a_scale.data() + row * p.blocks,
                                    p.a_sum.data() + row * p.blocks, rows, p.blocks, w.bytes.data(), w.panel_bytes,
                                    (n + level.table.panel_rows - 1) / level.table.panel_rows, c.data(), stride, n});
  return c;
}

TEST(GemmInt, every_shape_gives_the_stated_sequence_bit_for_bit_and_stays_near_f64) {
  Rng rng(1);
  for (const Format format : kFormats)
    for (const std::int64_t blocks : {1, 2, 3, 7, 18}) {
      const std::int64_t most_rows = 33, most_n = 16 * 9 + 5;
      const Problem p = make_problem(format, most_n, most_rows, blocks, rng);
      Array<float> want(most_rows * most_n);
      for (std::int64_t r = 0; r < most_rows; ++r)
        for (std::int64_t i = 0; i < most_n; ++i) {
          double exact, bound;
          want[r * most_n + i] = stated(p, r, i, &exact, &bound);
          ASSERT_NEAR(want[r * most_n + i], exact, bound);
        }
      for (const Level& level : levels()) {
        const Panels w = pack(p, level.table.panel_rows);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 33})
          for (const std::int64_t n : {1, 7, 8, 9, 15, 17, 31, 40, 64, 65, 128, 149}) {
            const Array<float> c = run(level, p, w, 0, rows, n);
            for (std::int64_t r = 0; r < rows; ++r) {
              for (std::int64_t i = 0; i < n; ++i)
                ASSERT_TRUE(same_bits(c[r * (n + 3) + i], want[r * most_n + i]))
                    << level.name << " " << kNames[static_cast<int>(format)] << " rows " << rows << " n " << n
                    << " blocks " << blocks << " at " << r << "," << i << ": " << c[r * (n + 3) + i] << " want "
                    << want[r * most_n + i];
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
  for (const Format format : kFormats) {
    const Problem p = make_problem(format, 33, 5, 3, rng, true);
    for (const Level& level : levels()) {
      const Array<float> c = run(level, p, pack(p, level.table.panel_rows), 0, 5, 33);
      for (std::int64_t r = 0; r < 5; ++r)
        for (std::int64_t i = 0; i < 33; ++i)
          ASSERT_TRUE(same_bits(c[r * 36 + i], stated(p, r, i)))
              << level.name << " " << kNames[static_cast<int>(format)] << " " << r << "," << i;
    }
  }
}

TEST(GemmInt, a_row_has_the_same_bits_alone_and_among_many_even_when_they_do_not_fit_a_cache) {
  Rng rng(3);
  for (const Format format : kFormats) {
    const Problem p = make_problem(format, 21, 300, 30, rng);  // 300 x 960 bytes: more than one chunk of rows
    for (const Level& level : levels()) {
      const Panels w = pack(p, level.table.panel_rows);
      const Array<float> all = run(level, p, w, 0, 300, 21);
      for (const std::int64_t r : {0, 1, 5, 130, 131, 132, 135, 136, 137, 138, 272, 273, 298, 299}) {
        const Array<float> one = run(level, p, w, r, 1, 21);
        ASSERT_EQ(std::memcmp(one.data(), all.data() + r * 24, 21 * sizeof(float)), 0) << level.name << " row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
