#include "sampling/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sampling/sampler.h"

namespace millrace::sampling {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors publish with their library (Random123, kat_vectors).
TEST(Philox, gives_the_published_answers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, each_number_of_the_key_counts_and_order_does_not) {
  const double x = uniform({1, 2, 3});
  EXPECT_EQ(x, uniform({1, 2, 3}));
  EXPECT_NE(x, uniform({2, 2, 3}));
  EXPECT_NE(x, uniform({1, 3, 3}));
  EXPECT_NE(x, uniform({1, 2, 4}));
  EXPECT_NE(x, uniform({1, 2, 3 + (std::uint64_t{1} << 32)}));
  EXPECT_NE(x, uniform({1 + (std::uint64_t{1} << 32), 2, 3}));
}

TEST(Uniform, fills_the_unit_interval_evenly) {
  constexpr int kBins = 64, kDraws = 256000;
  std::vector<int> bins(kBins);
  for (int i = 0; i < kDraws; ++i) {
    const double x = uniform({7, 0, static_cast<std::uint64_t>(i)});
    ASSERT_TRUE(x >= 0 && x < 1);
    ++bins[static_cast<std::size_t>(x * kBins)];
  }
  double chi2 = 0;
  for (const int n : bins) chi2 += std::pow(n - kDraws / kBins, 2) / (kDraws / kBins);
  EXPECT_LT(chi2, 119);  // 63 degrees of freedom: exceeded once in 30,000 seeds
}

}  // namespace
}  // namespace millrace::sampling
