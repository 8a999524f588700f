#pragma once

// The machine as ops bind to it: the kernels of one ISA level. What lies above ops/ speaks of a Backend and never of kernels.

#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/kernel_table.h"

namespace millrace::ops {

struct Backend {
  kernels::KernelTable kernels;
  std::string isa;  // "avx2"

  int panel_rows() const { return kernels.panel_rows; }
};

/// `isa`: a level's name; empty = the best that this CPU runs. Errors: invalid_argument (no such name), unsupported (this
/// CPU or build lacks it).
Result<Backend> make_backend(const std::string& isa);

/// Names of the levels that this CPU runs, worst first.
std::vector<std::string> runnable_backends();

}  // namespace millrace::ops
