#pragma once

// What inspect says of this machine and of this build on it.

#include <nlohmann/json_fwd.hpp>

#include "kernels/registry.h"

namespace millrace::cli {

/// CPU, cores, caches, memory, instruction sets.
nlohmann::ordered_json machine_report();

/// Kernel name -> the level that it comes from, for a table of `isa`.
nlohmann::ordered_json kernels_report(kernels::Isa isa);

}  // namespace millrace::cli
