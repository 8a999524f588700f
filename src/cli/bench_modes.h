#pragma once

// What `bench WORD MODEL` measures. A new mode is its word here, its function below, a row in bench_modes.cpp and a file
// of its own.

#include <string_view>

#include "base/result.h"
#include "cli/options.h"

namespace millrace::cli {

/// As the choices of an option row; in the order of the table.
inline constexpr std::string_view kBenchModeWords = "kv|schedule|serve|soak|stall";

Result<int> run_bench_speed(const Options& options);  // without a word
Result<int> run_bench_kv(const Options& options);
Result<int> run_bench_schedule(const Options& options);
Result<int> run_bench_serve(const Options& options);
Result<int> run_bench_soak(const Options& options);
Result<int> run_bench_stall(const Options& options);

}  // namespace millrace::cli
