#pragma once

// Which nodes of a graph share a launch. Pure: integers in, integers out.
//
// Between two launches all workers meet at a barrier, and the slowest one decides when. So a node goes into the earliest
// launch that its inputs allow, and nodes that treat each row by itself follow each other there: the worker that made a
// row is the one that reads it.

#include <span>
#include <vector>

namespace millrace::graph {

/// One node, as grouping sees it.
struct LaunchNode {
  std::vector<int> after;  // earlier nodes that it needs the results of
  int rows = -1;           // kind of rows that it treats one by one; -1: it reads other rows, too
};

/// Nodes that need no barrier among them.
struct Phase {
  std::vector<int> nodes;  // one, or a chain over the same rows, in order
  bool by_rows = false;
  friend bool operator==(const Phase&, const Phase&) = default;
};

/// Launches in order; the phases of one are independent of each other, at most `max_phases` of them. Nodes stand in an
/// order in which they can run.
std::vector<std::vector<Phase>> group_launches(std::span<const LaunchNode> nodes, int max_phases);

}  // namespace millrace::graph
