// Selections against sorting everything, sums in doubles.

#include "sampling/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "sampling/row_loops.h"

namespace millrace::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

struct Row {
  std::string name;
  std::vector<float> logits;
};

std::vector<Row> rows() {
  std::vector<Row> out;
  std::mt19937 random(1);
  const auto add = [&](const char* name, int n, auto&& logit) {
    std::vector<float> logits(static_cast<std::size_t>(n));
    for (float& x : logits) x = logit();
    out.push_back({std::string(name) + " " + std::to_string(n), std::move(logits)});
  };
  std::normal_distribution<float> normal(0, 1);
  for (const int n : {1, 2, 7, 40, 511, 513, 3000, 20000, 70000}) {
    add("flat", n, [&] { return normal(random); });
    add("flatter", n, [&] { return 0.01f * normal(random); });
    add("peaked", n, [&] { return 5 * normal(random); });
    add("of few values", n, [&] { return std::round(2 * normal(random)); });
    add("of halves", n, [&] { return static_cast<float>(static_cast<int>(normal(random) * 100)) * 0x1p-6f; });
    add("all equal", n, [] { return 1.25f; });
    add("masked", n, [&] { return random() % 50 == 0 ? normal(random) : -kInf; });
    add("huge", n, [&] { return kMost * (random() % 3 == 0 ? 1.0f : -0.5f); });
    add("tiny", n, [&] { return 1e-42f * normal(random); });
    out.back().logits[0] = out[out.size() - 2].logits[0] = 0.5f;  // at least one is finite
    add("one far ahead", n, [&] { return normal(random); });
    out.back().logits[static_cast<std::size_t>(n / 2)] = 60;
    add("rising", n, [x = 0.0f]() mutable { return x += 1e-4f; });
  }
  for (Row& row : out)
    if (std::ranges::max(row.logits) == -kInf) row.logits.back() = 0;
  return out;
}

// Float sums of up to 36 terms and as many roundings: what the definition allows, not more.
constexpr double kSlack = 40 * 0x1p-24;

TEST(FindNucleus, ends_where_sorting_says) {
  for (const Row& row : rows()) {
    const auto& logits = row.logits;
    const std::size_t n = logits.size();
    const float max = std::ranges::max(logits);
    std::vector<TokenId> order(n);
    std::iota(order.begin(), order.end(), 0);
    const auto logit = [&](TokenId t) { return logits[static_cast<std::size_t>(t)]; };
    std::ranges::stable_sort(order, [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
    for (const float temperature : {0.8f, 1e-38f, 1e-3f, 100.0f})
      for (const double share : {0.95, 0.5, 0.999, 1e-6, 0.05}) {
        SCOPED_TRACE(row.name + ", temperature " + std::to_string(temperature) + ", share " + std::to_string(share));
        std::vector<float> weights(n);
        std::vector<double> chunk_sums(chunks_of(n));
        std::vector<TokenId> tokens(n);
        const float rate = rate_of(temperature);
        // On the scale of the peak or of an estimate, with near bounds or useless ones.
        Scale scale{max, rate};
        Bounds near_cut{kInf, kInf, kInf, kInf};
        if (n >= kLeastForEstimate) {
          const Estimate guess = estimate(logits, rate, share);
          near_cut = guess.near_cut;
          if (guess.peak > -kInf && (max - guess.peak) * rate <= kMostAbove) scale.reference = guess.peak;
        }
        std::vector<float> peaks(chunks_of(n));
        const Weighed weighed = weigh(logits, scale, near_cut[0], weights, chunk_sums, peaks);
        const Nucleus got = find_nucleus(logits, weights, scale, max, share, weighed.sum, near_cut, chunk_sums, tokens);
        double total = 0, from_bound = 0, before = 0, with = 0, kept = 0;
        for (const float w : weights) total += w;
        for (std::size_t i = 0; i < n; ++i) from_bound += logits[i] >= near_cut[0] ? weights[i] : 0;
        EXPECT_NEAR(weighed.from_bound, from_bound, from_bound * kSlack);
        std::size_t rank = 0;
        for (; order[rank] != got.cut.token; ++rank) before += weights[static_cast<std::size_t>(order[rank])];
        std::vector<double> sums_before(chunks_of(n));
        EXPECT_NEAR(kept_sum(logits, weights, Kept(got.cut.logit, got.cut.token - 1, 0), sums_before), before, before * kSlack);
        with = before + weights[static_cast<std::size_t>(got.cut.token)];
        ASSERT_EQ(logit(got.cut.token), got.cut.logit);
        EXPECT_LT(before, share * total * (1 + kSlack)) << "one too many, at rank " << rank;
        EXPECT_GE(with, share * total * (1 - kSlack)) << "too few, at rank " << rank;
        std::vector<double> want_sums(chunk_sums.size());
        for (std::size_t i = 0; i < n; ++i)
          if (within(got.cut, logits[i], static_cast<TokenId>(i))) want_sums[i / kChunk] += weights[i], kept += weights[i];
        for (std::size_t c = 0; c < want_sums.size(); ++c) ASSERT_NEAR(chunk_sums[c], want_sums[c], want_sums[c] * kSlack) << "chunk " << c;
        EXPECT_NEAR(got.sum, kept, kept * kSlack);
      }
  }
}

TEST(SelectBest, takes_what_sorting_takes) {
  for (const Row& row : rows()) {
    for (const int n : {1, 2, 40, 256, 700, 5000, 30000}) {
      SCOPED_TRACE(row.name + ", best " + std::to_string(n));
      std::vector<TokenId> want;
      for (std::size_t i = 0; i < row.logits.size(); ++i)
        if (row.logits[i] > -kInf) want.push_back(static_cast<TokenId>(i));
      std::ranges::sort(want, better_by(row.logits));
      want.resize(std::min(want.size(), static_cast<std::size_t>(n)));
      std::ranges::sort(want);
      std::vector<float> peaks(chunks_of(row.logits.size()));
      (void)find_peak(row.logits, peaks);
      std::vector<TokenId> tokens(row.logits.size());
      for (int again = 0; again < 2; ++again) {  // peaks may come in another order
        const std::span<const TokenId> best = select_best(row.logits, peaks, n, tokens);
        ASSERT_TRUE(std::ranges::equal(best, want));
      }
    }
  }
}

}  // namespace
}  // namespace millrace::sampling
