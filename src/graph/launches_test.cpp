#include "graph/launches.h"

#include <gtest/gtest.h>

#include <random>

namespace millrace::graph {
namespace {

using Launches = std::vector<std::vector<Phase>>;

// norm -> quantize -> three products -> rotation of two of them -> attention
TEST(Launches, rows_follow_each_other_and_independent_nodes_run_side_by_side) {
  const std::vector<LaunchNode> nodes = {{{}, 0}, {{0}, 0}, {{1}, -1}, {{1}, -1}, {{1}, -1}, {{2}, 0}, {{3}, 0}, {{4, 6}, 0}, {{5, 7}, -1}};
  const Launches want = {{{{0, 1}, true}}, {{{2}, false}, {{3}, false}, {{4}, false}}, {{{5, 6, 7}, true}}, {{{8}, false}}};
  EXPECT_EQ(group_launches(nodes, 8), want);
}

TEST(Launches, rows_of_another_kind_are_another_chain) {
  const std::vector<LaunchNode> nodes = {{{}, 0}, {{}, 1}, {{0}, 1}, {{1}, 1}};
  const Launches want = {{{{0}, true}, {{1, 3}, true}}, {{{2}, true}}};
  EXPECT_EQ(group_launches(nodes, 8), want);
}

TEST(Launches, too_many_phases_go_on_in_a_launch_of_their_own) {
  const std::vector<LaunchNode> nodes(5, {{}, -1});
  EXPECT_EQ(group_launches(nodes, 2).size(), 3u);
}

// Every node runs once; what it needs is done in an earlier launch, or earlier in its own chain.
TEST(Launches, any_graph_runs_each_node_once_and_after_what_it_needs_500_seeds) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    std::vector<LaunchNode> nodes(1 + random() % 40);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      nodes[n].rows = static_cast<int>(random() % 4) - 1;
      for (unsigned i = 0; n > 0 && i < random() % 4; ++i) nodes[n].after.push_back(static_cast<int>(random() % n));
    }
    struct Place { int launch = -1, phase = -1, order = -1; };
    std::vector<Place> places(nodes.size());
    const Launches launches = group_launches(nodes, 3);
    for (std::size_t l = 0; l < launches.size(); ++l) {
      ASSERT_LE(launches[l].size(), 3u);
      for (std::size_t p = 0; p < launches[l].size(); ++p)
        for (std::size_t i = 0; i < launches[l][p].nodes.size(); ++i) {
          Place& place = places[static_cast<std::size_t>(launches[l][p].nodes[i])];
          ASSERT_EQ(place.launch, -1) << "seed " << seed;
          place = {static_cast<int>(l), static_cast<int>(p), static_cast<int>(i)};
        }
    }
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      ASSERT_NE(places[n].launch, -1) << "seed " << seed << " node " << n;
      for (const int d : nodes[n].after) {
        const Place &own = places[n], &other = places[static_cast<std::size_t>(d)];
        const bool same_chain = own.launch == other.launch && own.phase == other.phase && other.order < own.order;
        ASSERT_TRUE(other.launch < own.launch || same_chain) << "seed " << seed << " node " << n << " after " << d;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::graph
