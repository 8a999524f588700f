#pragma once

// What this machine can reach, measured: the yardstick that bench holds results against.

#include "kernels/registry.h"

namespace millrace::cli {

/// 0 where the instruction set has no such arithmetic of its own.
struct Roof {
  double int8_gops = 0;     // multiply and add count as two
  double bf16_gflops = 0;
  double f32_gflops = 0;
  double read_gbs = 0;      // 10^9 bytes a second, from memory far larger than the caches
  double barrier_us = 0;    // from launch to launch, with one empty tile for each worker
};

/// Runs each loop on `threads` threads at once for a fraction of a second, several times; the best counts. About 2 s.
Roof measure_roof(kernels::Isa isa, int threads);

}  // namespace millrace::cli
