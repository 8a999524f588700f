#pragma once

// The densest loops that an instruction set allows: registers only for arithmetic, a plain sum for reading. They compute
// nothing of use; roof.cpp times them.

#include <cstdint>

#include "kernels/registry.h"

namespace millrace::cli {

struct ArithmeticLoop {
  void (*run)(std::int64_t rounds) = nullptr;  // nullptr: no such arithmetic
  double ops_per_round = 0;                    // a multiply and an add are two
};

struct RoofLoops { ArithmeticLoop int8, bf16, f32; };

RoofLoops roof_loops(kernels::Isa isa);

/// Reads `words` words once, in order. `words` is a multiple of 8.
using ReadLoop = void (*)(const std::uint64_t* data, std::int64_t words);
ReadLoop read_loop(kernels::Isa isa);

}  // namespace millrace::cli
