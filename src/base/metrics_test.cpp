#include "base/metrics.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Histogram, a_value_is_in_the_bucket_of_the_least_bound_that_it_does_not_exceed) {
  static constexpr std::array<std::uint64_t, 3> kBounds = {10, 20, 1000};
  Histogram histogram(kBounds);
  for (const std::uint64_t value : {0, 10, 11, 20, 21, 1000, 1001, 1'000'000}) histogram.record(value);
  ASSERT_EQ(histogram.bounds().size(), 3u);
  EXPECT_EQ(histogram.bucket(0), 2u);
  EXPECT_EQ(histogram.bucket(1), 2u);
  EXPECT_EQ(histogram.bucket(2), 2u);
  EXPECT_EQ(histogram.bucket(3), 2u);
  EXPECT_EQ(histogram.count(), 8u);
  EXPECT_EQ(histogram.sum(), 1'002'063u);
}

}  // namespace
}  // namespace millrace
