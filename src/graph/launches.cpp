#include "graph/launches.h"

#include <algorithm>

#include "base/check.h"

namespace millrace::graph {

std::vector<std::vector<Phase>> group_launches(std::span<const LaunchNode> nodes, int max_phases) {
  MILLRACE_CHECK(max_phases >= 1, "launches of no phases");
  std::vector<int> level(nodes.size(), 0);
  std::vector<std::vector<Phase>> levels;
  std::vector<std::vector<int>> rows_of;  // of each phase; -1: not by rows
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const LaunchNode& node = nodes[n];
    for (const int d : node.after) {
      const auto before = static_cast<std::size_t>(d);
      MILLRACE_CHECK(before < n, "a node needs the result of a later one");
      const bool chained = node.rows >= 0 && nodes[before].rows == node.rows;
      level[n] = std::max(level[n], level[before] + (chained ? 0 : 1));
    }
    const auto at = static_cast<std::size_t>(level[n]);
    if (at >= levels.size()) levels.resize(at + 1), rows_of.resize(at + 1);
    const auto chain = node.rows < 0 ? rows_of[at].end() : std::ranges::find(rows_of[at], node.rows);
    if (chain != rows_of[at].end()) {
      levels[at][static_cast<std::size_t>(chain - rows_of[at].begin())].nodes.push_back(static_cast<int>(n));
    } else {
      levels[at].push_back({{static_cast<int>(n)}, node.rows >= 0});
      rows_of[at].push_back(node.rows);
    }
  }
  std::vector<std::vector<Phase>> out;
  for (std::vector<Phase>& phases : levels) {
    // The long ones first: what is left at the end should be small.
    std::stable_partition(phases.begin(), phases.end(), [](const Phase& p) { return !p.by_rows; });
    for (std::size_t i = 0; i < phases.size(); i += static_cast<std::size_t>(max_phases))
      out.emplace_back(phases.begin() + static_cast<std::ptrdiff_t>(i),
                       phases.begin() + static_cast<std::ptrdiff_t>(std::min(phases.size(), i + static_cast<std::size_t>(max_phases))));
  }
  return out;
}

}  // namespace millrace::graph
