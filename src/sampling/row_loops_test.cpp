// Every level against the definition in row_loops.h, bit by bit.

#include "sampling/row_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

namespace millrace::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::size_t kSizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 500, 511, 512, 513, 527, 1024, 1500, 20011};

/// Spread out, flat, full of equals, mostly masked.
std::vector<float> row_of(std::size_t n, unsigned kind) {
  std::mt19937 random(kind * 31 + static_cast<unsigned>(n));
  std::normal_distribution<float> normal(0, kind == 0 ? 8.0f : 0.7f);
  std::vector<float> row(n);
  for (float& x : row) {
    x = normal(random);
    if (kind == 2) x = std::round(x * 4) / 4;
    if (kind == 3 && random() % 16 != 0) x = -kInf;
  }
  return row;
}

float max_of(const std::vector<float>& row) {
  float max = -kInf;
  for (const float x : row) max = x > max ? x : max;
  return max;
}

/// The sum of the terms as the header defines it; and of each chunk.
double defined_sum(const std::vector<float>& terms, std::vector<double>& chunks) {
  double total = 0;
  chunks.clear();
  for (std::size_t begin = 0; begin < terms.size(); begin += kChunk) {
    float lanes[16] = {};
    for (std::size_t i = begin; i < std::min(begin + kChunk, terms.size()); ++i) lanes[i % 16] += terms[i];
    for (std::size_t half = 8; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    chunks.push_back(lanes[0]);
    total += lanes[0];
  }
  return total;
}

template <class Body>
void for_rows_and_levels(Body&& body) {
  for (const RowLoops* level : row_loops())
    for (const std::size_t n : kSizes)
      for (unsigned kind = 0; kind < 4; ++kind) {
        SCOPED_TRACE(std::string(level->level) + ", " + std::to_string(n) + " logits, kind " + std::to_string(kind));
        body(*level, row_of(n, kind));
      }
}

TEST(RowLoops, sums_are_the_defined_ones_at_every_level) {
  for_rows_and_levels([](const RowLoops& level, const std::vector<float>& row) {
    const float max = std::max(max_of(row), -1000.0f), rate = rate_of(0.8f);
    std::vector<float> want_weights, weights(row.size(), kNan);
    for (const float x : row) want_weights.push_back(two_to_minus((max - x) * rate));
    std::vector<double> want, sums(chunks_of(row.size()), -1);
    const double total = defined_sum(want_weights, want);
    EXPECT_EQ(level.exp_sum(row.data(), row.size(), max, rate), total);
    std::vector<float> peaks(sums.size());
    Weighed got;
    level.weigh(row.data(), row.size(), {max, rate}, 0.5f, weights.data(), sums.data(), peaks.data(), got);
    EXPECT_EQ(got.sum, total);
    EXPECT_EQ(weights, want_weights);
    EXPECT_EQ(sums, want);
    EXPECT_EQ(got.peak.logit, max_of(row));
    EXPECT_FALSE(got.peak.broken);
    for (std::size_t c = 0; c < peaks.size(); ++c) EXPECT_EQ(peaks[c], max_of({row.begin() + static_cast<std::ptrdiff_t>(c * kChunk), row.begin() + static_cast<std::ptrdiff_t>(std::min((c + 1) * kChunk, row.size()))}));

    const Bounds bounds = {-kInf, -0.25f, 0.5f, max};
    BoundSums want_from, from;
    for (std::size_t b = 0; b < kBounds; ++b) {
      auto kept = want_weights;
      for (std::size_t i = 0; i < kept.size(); ++i)
        if (!(row[i] >= bounds[b])) kept[i] = 0;
      want_from[b] = defined_sum(kept, want);
    }
    level.sums_from(row.data(), weights.data(), row.size(), bounds.data(), from.data());
    EXPECT_EQ(from, want_from);
    EXPECT_EQ(got.from_bound, want_from[2]);
    const Bounds finite = {-2, -0.25f, 0.5f, max};
    BoundSums want_counts = {}, counts;
    for (std::size_t b = 0; b < kBounds; ++b)
      for (const float x : row) want_counts[b] += x >= finite[b] ? 1 : 0;
    level.counts_from(row.data(), row.size(), finite.data(), counts.data());
    EXPECT_EQ(counts, want_counts);
    for (const std::size_t last : {std::size_t{0}, row.size() / 2, row.size() - 1})
      for (const float least_weight : {0.0f, 0.3f}) {
        const Kept kept(row[last], static_cast<TokenId>(last), least_weight);
        auto terms = want_weights;
        for (std::size_t i = 0; i < terms.size(); ++i)
          if (terms[i] < least_weight || row[i] < row[last] || (row[i] == row[last] && i > last)) terms[i] = 0;
        const double want_kept = defined_sum(terms, want);
        EXPECT_EQ(level.kept_sum(row.data(), weights.data(), row.size(), kept, sums.data()), want_kept);
        EXPECT_EQ(sums, want);
      }
  });
}

TEST(RowLoops, what_lies_between_is_found_at_every_level) {
  for_rows_and_levels([](const RowLoops& level, const std::vector<float>& row) {
    for (const auto& [low, high] : {std::pair{-0.25f, 0.25f}, std::pair{0.5f, kInf}, std::pair{3.0f, 3.0f}, std::pair{-1000.0f, -2.0f}}) {
      std::vector<TokenId> want, tokens(row.size());
      auto above = row;
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] >= low && row[i] < high) want.push_back(static_cast<TokenId>(i));
        above[i] = row[i] >= high ? 1.0f + static_cast<float>(i % 7) : 0;
      }
      std::vector<float> weights(row.size());
      for (std::size_t i = 0; i < row.size(); ++i) weights[i] = 1.0f + static_cast<float>(i % 7);
      std::vector<double> want_sums, sums(chunks_of(row.size()));
      (void)defined_sum(above, want_sums);
      for (const std::size_t enough : {row.size(), std::size_t{3}}) {
        const std::size_t found = level.find_between(row.data(), row.size(), low, high, enough, tokens.data());
        ASSERT_LE(found, want.size());
        EXPECT_GE(found, std::min(enough, want.size()));
        EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(found), want.begin()));
      }
      const std::size_t split = level.split(row.data(), weights.data(), row.size(), low, high, tokens.data(), sums.data());
      EXPECT_EQ(std::vector(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(split)), want);
      EXPECT_EQ(sums, want_sums);
    }
  });
}

TEST(RowLoops, the_peak_passes_over_nan_and_says_what_is_broken) {
  for_rows_and_levels([](const RowLoops& level, std::vector<float> row) {
    std::vector<float> peaks(chunks_of(row.size()));
    Peak peak;
    level.find_peak(row.data(), row.size(), peak, peaks.data());
    EXPECT_EQ(peak.logit, max_of(row));
    EXPECT_EQ(max_of(peaks), peak.logit);
    EXPECT_FALSE(peak.broken);
    for (const float broken : {kNan, kInf})
      for (const std::size_t at : {std::size_t{0}, row.size() / 2, row.size() - 1}) {
        auto other = row;
        other[at] = broken;
        level.find_peak(other.data(), other.size(), peak, peaks.data());
        EXPECT_EQ(peak.logit, max_of(other));
        EXPECT_TRUE(peak.broken);
        std::vector<float> weights(row.size());
        std::vector<double> sums(peaks.size());
        Weighed weighed;
        level.weigh(other.data(), other.size(), {0, 1}, 0, weights.data(), sums.data(), peaks.data(), weighed);
        EXPECT_TRUE(weighed.peak.broken);
      }
  });
}

TEST(RowLoops, two_to_minus_is_within_two_to_minus_22_of_the_real_one) {
  for (int i = 0; i <= 1260000; ++i) {
    const float y = static_cast<float>(i) * 1e-4f;
    const double want = std::exp2(-double{y});
    ASSERT_NEAR(two_to_minus(y), want, want * 0x1p-22) << "y = " << y;
  }
  EXPECT_EQ(two_to_minus(0), 1.0f);
  EXPECT_EQ(two_to_minus(127), 0.0f);
  EXPECT_EQ(two_to_minus(kInf), 0.0f);
}

}  // namespace
}  // namespace millrace::sampling
