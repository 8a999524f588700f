// Float products: the stated chain bit for bit where there is one, and near f64 everywhere.

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {
namespace {

enum class Format { f32, f16, bf16 };
constexpr Format kFormats[] = {Format::f32, Format::f16, Format::bf16};
constexpr const char* kNames[] = {"f32", "f16", "bf16"};

float rounded(float x, Format f) {
  if (f == Format::f16) return tensor::f16_to_f32(tensor::f32_to_f16(x));
  if (f == Format::bf16) return tensor::bf16_to_f32(tensor::f32_to_bf16(x));
  return x;
}

/// w f32 [n, k] and a f32 [rows, k], exact in the format.
struct Problem {
  Format format;
  std::int64_t n, rows, k;
  Array<float> w, a;
};

Problem make_problem(Format format, std::int64_t n, std::int64_t rows, std::int64_t k, Rng& rng) {
  Problem p{format, n, rows, k, random_floats(n * k, rng), random_floats(rows * k, rng)};
  for (float& x : p.w) x = rounded(x, format);
  if (format == Format::bf16)
    for (float& x : p.a) x = rounded(x, format);
  return p;
}

struct Panels {
  Array<std::uint8_t> bytes;
  std::int64_t panel_bytes, count;
};

Panels pack(const Problem& p, int panel_rows) {
  const std::int64_t size = p.format == Format::f32 ? 4 : 2, steps = p.format == Format::bf16 ? (p.k + 1) / 2 * 2 : p.k;
  const std::int64_t panel_bytes = align64(steps * panel_rows * size), count = (p.n + panel_rows - 1) / panel_rows;
  Panels out{Array<std::uint8_t>(panel_bytes * count), panel_bytes, count};
  for (std::int64_t i = 0; i < p.n; ++i)
    for (std::int64_t j = 0; j < p.k; ++j) {
      std::uint8_t* panel = out.bytes.data() + i / panel_rows * panel_bytes;
      const float w = p.w[i * p.k + j];
      const std::uint16_t half = p.format == Format::f16 ? tensor::f32_to_f16(w) : tensor::f32_to_bf16(w);
      if (p.format == Format::f32) std::memcpy(panel + (j * panel_rows + i % panel_rows) * 4, &w, 4);
      if (p.format == Format::f16) std::memcpy(panel + (j * panel_rows + i % panel_rows) * 2, &half, 2);
      if (p.format == Format::bf16)
        std::memcpy(panel + ((j / 2 * panel_rows + i % panel_rows) * 2 + j % 2) * 2, &half, 2);
    }
  return out;
}

float stated(const Problem& p, std::int64_t r, std::int64_t i) {
  float f = 0;
  for (std::int64_t j = 0; j < p.k; ++j) f = std::fma(p.a[r * p.k + j], p.w[i * p.k + j], f);
  if (p.format == Format::bf16 && p.k % 2) f = std::fma(0.0f, 0.0f, f);
  return f;
}

/// f64, and what a chain of k f32 additions (and, with vdpbf16ps, k rounded products) may differ from it.
std::pair<double, double> exact(const Problem& p, std::int64_t r, std::int64_t i) {
  double sum = 0, norm = 0;
  for (std::int64_t j = 0; j < p.k; ++j) {
    sum += double(p.a[r * p.k + j]) * p.w[i * p.k + j];
    norm += std::abs(double(p.a[r * p.k + j]) * p.w[i * p.k + j]);
  }
  return {sum, double(2 * p.k + 2) * 0x1p-24 * 1.001 * norm + 1e-37};
}

Array<float> run(const Level& level, const Problem& p, const Panels& w, std::int64_t row, std::int64_t rows,
                 std::int64_t n) {
  const std::int64_t c_stride = n + 3, a_stride = p.k + 5;
  const std::int64_t panels = (n + level.table.panel_rows - 1) / level.table.panel_rows;
  Array<float> c(rows * c_stride, -7.0f);
  // Between the rows of a lies NaN, and nothing after the last: a kernel may not read there.
  const std::int64_t a_size = (rows - 1) * a_stride + p.k;
  if (p.format == Format::bf16) {
    Array<std::uint16_t> a(a_size, std::uint16_t{0x7FC0});
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < p.k; ++j) a[r * a_stride + j] = tensor::f32_to_bf16(p.a[(row + r) * p.k + j]);
    level.table.gemm_bf16(
        {a.data(), a_stride, rows, p.k, w.bytes.data(), w.panel_bytes, panels, c.data(), c_stride, n});
  } else {
    Array<float> a(a_size, std::nanf(""));
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(a.data() + r * a_stride, p.a.data() + (row + r) * p.k, static_cast<std::size_t>(p.k) * 4);
    (p.format == Format::f32 ? level.table.gemm_f32 : level.table.gemm_f16)(
        {a.data(), a_stride, rows, p.k, w.bytes.data(), w.panel_bytes, panels, c.data(), c_stride, n});
  }
  return c;
}

TEST(GemmFloat, every_shape_gives_the_stated_chain_bit_for_bit_and_stays_near_f64) {
  Rng rng(1);
  for (const Format format : kFormats)
    for (const std::int64_t k : {1, 2, 3, 31, 64, 129}) {
      const std::int64_t most_rows = 33, most_n = 16 * 9 + 5;
      const Problem p = make_problem(format, most_n, most_rows, k, rng);
      Array<float> want(most_rows * most_n);
      Array<double> f64(most_rows * most_n), bound(most_rows * most_n);
      for (std::int64_t r = 0; r < most_rows; ++r)
        for (std::int64_t i = 0; i < most_n; ++i) {
          want[r * most_n + i] = stated(p, r, i);
          std::tie(f64[r * most_n + i], bound[r * most_n + i]) = exact(p, r, i);
        }
      for (const Level& level : levels()) {
        const Panels w = pack(p, level.table.panel_rows);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 33})
          for (const std::int64_t n : {1, 7, 8, 9, 15, 17, 31, 40, 64, 65, 128, 149}) {
            const Array<float> c = run(level, p, w, 0, rows, n);
            for (std::int64_t r = 0; r < rows; ++r) {
              for (std::int64_t i = 0; i < n; ++i) {
                const float got = c[r * (n + 3) + i];
                ASSERT_NEAR(got, f64[r * most_n + i], bound[r * most_n + i])
                    << level.name << " " << kNames[static_cast<int>(format)] << " k " << k;
                if (format == Format::bf16 && level.own_bf16_dot) continue;
                ASSERT_TRUE(same_bits(got, want[r * most_n + i]))
                    << level.name << " " << kNames[static_cast<int>(format)] << " rows " << rows << " n " << n << " k "
                    << k << " at " << r << "," << i;
              }
              for (std::int64_t i = n; i < n + 3; ++i)
                ASSERT_EQ(c[r * (n + 3) + i], -7.0f) << level.name << " wrote beyond n";
            }
          }
      }
    }
}

TEST(GemmFloat, a_row_has_the_same_bits_alone_and_among_many_even_when_they_do_not_fit_a_cache) {
  Rng rng(2);
  for (const Format format : kFormats) {
    const Problem p = make_problem(format, 21, 150, 3601, rng);  // several chunks of rows on every level
    for (const Level& level : levels()) {
      const Panels w = pack(p, level.table.panel_rows);
      const Array<float> all = run(level, p, w, 0, 150, 21);
      for (const std::int64_t r : {0, 1, 5, 6, 17, 18, 31, 32, 35, 36, 63, 64, 127, 128, 147, 148, 149}) {
        const Array<float> one = run(level, p, w, r, 1, 21);
        ASSERT_EQ(std::memcmp(one.data(), all.data() + r * 24, 21 * sizeof(float)), 0) << level.name << " row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
