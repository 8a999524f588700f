#pragma once

// Philox 4x32-10, a counter-based generator: a bijection of 128-bit counters under a 64-bit key whose outputs pass as
// random (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). No state.

#include <array>
#include <cstdint>

namespace millrace::sampling {

/// Ten rounds. Counter, key and result are words as the paper numbers them, lowest first.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

}  // namespace millrace::sampling
