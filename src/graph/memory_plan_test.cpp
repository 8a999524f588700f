#include "graph/memory_plan.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace millrace::graph {
namespace {

std::size_t lower_bound_bytes(std::span<const Lifetime> values, int n_ops) {
  std::size_t most = 0;
  for (int op = 0; op < n_ops; ++op) {
    std::size_t live = 0;
    for (auto& v : values)
      if (v.first <= op && op <= v.last) live += (v.bytes + kAlignment - 1) / kAlignment * kAlignment;
    most = std::max(most, live);
  }
  return most;
}

TEST(PlanMemory, a_chain_of_ops_needs_two_buffers) {
  const std::vector<Lifetime> chain = {{4096, 0, 1}, {4096, 1, 2}, {4096, 2, 3}, {4096, 3, 4}};
  EXPECT_EQ(plan_memory(chain).peak_bytes, 8192u);
}

// B2, B12
TEST(PlanMemory, values_alive_together_never_overlap_for_500_random_graphs) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 rng(seed);
    std::vector<Lifetime> values;
    for (unsigned i = 0, n = 1 + rng() % 40; i < n; ++i) {
      const int first = static_cast<int>(rng() % 30);
      values.push_back({1 + rng() % 5000, first, first + static_cast<int>(rng() % 6)});
    }
    const auto plan = plan_memory(values);
    EXPECT_TRUE(plan.peak_bytes >= lower_bound_bytes(values, 40));
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(plan.offsets[i] % kAlignment == 0);
      EXPECT_TRUE(plan.offsets[i] + values[i].bytes <= plan.peak_bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = values[i].first <= values[j].last && values[j].first <= values[i].last;
        const bool overlap = plan.offsets[i] < plan.offsets[j] + values[j].bytes &&
                             plan.offsets[j] < plan.offsets[i] + values[i].bytes;
        EXPECT_FALSE(together && overlap) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::graph
