#pragma once

// Block formats as they lie in GGUF files, 32 values each. Source: the GGUF format page and the published
// definition of each type. `d` and `m` are IEEE halves.

#include <cstdint>

namespace millrace::tensor {

inline constexpr int kQuantBlock = 32;

/// value[j] = d * (q - 8), q of 4 bits: j < 16 in the low nibble of qs[j], j >= 16 in the high nibble of qs[j - 16].
struct BlockQ4_0 { std::uint16_t d; std::uint8_t qs[16]; };
static_assert(sizeof(BlockQ4_0) == 18);

/// value[j] = d * q + m, nibbles as in BlockQ4_0.
struct BlockQ4_1 { std::uint16_t d; std::uint16_t m; std::uint8_t qs[16]; };
static_assert(sizeof(BlockQ4_1) == 20);

/// value[j] = d * qs[j]
struct BlockQ8_0 { std::uint16_t d; std::int8_t qs[32]; };
static_assert(sizeof(BlockQ8_0) == 34);

}  // namespace millrace::tensor
