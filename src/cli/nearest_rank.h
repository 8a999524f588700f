#pragma once

// Percentiles as every bench here means them: an exact value that was measured, none between two.

#include <algorithm>
#include <cmath>
#include <span>

namespace millrace::cli {

/// The least value that at least p percent of all do not exceed. `sorted`: ascending, not empty.
inline double nearest_rank(std::span<const double> sorted, double p) {
  const double rank = std::ceil(p / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace millrace::cli
