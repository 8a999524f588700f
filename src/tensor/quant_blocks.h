#pragma once

// Block formats as they lie in GGUF files, and their bits taken apart into codes and scales. What is computed with those
// is the business of kernels and packing. Source: the GGUF format page and the published definition of each type.
// `d`, `m` and `dmin` are IEEE halves; a "super" block has 256 values in groups with integer scales.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace millrace::tensor {

inline constexpr int kQuantBlock = 32;
inline constexpr int kSuperBlock = 256;

/// value[j] = d * (q - 8), q of 4 bits: j < 16 in the low nibble of qs[j], j >= 16 in the high nibble of qs[j - 16].
struct BlockQ4_0 { std::uint16_t d; std::uint8_t qs[16]; };
static_assert(sizeof(BlockQ4_0) == 18);

/// value[j] = d * q + m, nibbles as in BlockQ4_0.
struct BlockQ4_1 { std::uint16_t d; std::uint16_t m; std::uint8_t qs[16]; };
static_assert(sizeof(BlockQ4_1) == 20);

/// value[j] = d * (q - 16), q of 5 bits: the lower 4 as in BlockQ4_0, the upper one bit j % 8 of qh[j / 8].
struct BlockQ5_0 { std::uint16_t d; std::uint8_t qh[4]; std::uint8_t qs[16]; };
static_assert(sizeof(BlockQ5_0) == 22);

/// value[j] = d * q + m, q as in BlockQ5_0.
struct BlockQ5_1 { std::uint16_t d; std::uint16_t m; std::uint8_t qh[4]; std::uint8_t qs[16]; };
static_assert(sizeof(BlockQ5_1) == 24);

/// value[j] = d * qs[j]
struct BlockQ8_0 { std::uint16_t d; std::int8_t qs[32]; };
static_assert(sizeof(BlockQ8_0) == 34);

/// value[j] = d * scale * q - dmin * min, groups of 16: the scale of group g in the low nibble of scales[g], its min in
/// the high one. q of 2 bits: with j = 128 h + 32 i + l, bits 2i and 2i + 1 of qs[32 h + l].
struct BlockQ2K { std::uint8_t scales[16]; std::uint8_t qs[64]; std::uint16_t d; std::uint16_t dmin; };
static_assert(sizeof(BlockQ2K) == 84);

/// value[j] = d * (scale - 32) * (q - 4), groups of 16. q of 3 bits: the lower two as in BlockQ2K, the upper one bit
/// 4 h + i of hmask[l]. Scales of 6 bits: of group g the lower 4 are the low (g < 8) or high nibble of scales[g % 8],
/// the upper 2 are bits 2 (g / 4) and up of scales[8 + g % 4].
struct BlockQ3K { std::uint8_t hmask[32]; std::uint8_t qs[64]; std::uint8_t scales[12]; std::uint16_t d; };
static_assert(sizeof(BlockQ3K) == 110);

/// value[j] = d * scale * q - dmin * min, groups of 32. q of 4 bits: with j = 64 i + l, l < 32 in the low nibble of
/// qs[32 i + l], others in the high nibble of qs[32 i + l - 32]. Scales and minimums of 6 bits: those of group g < 4 are
/// the lower 6 bits of scales[g] and scales[g + 4]; of group g >= 4 the lower 4 bits are the low (scale) and high (min)
/// nibble of scales[g + 4], the upper 2 are the top bits of scales[g - 4] (scale) and scales[g] (min).
struct BlockQ4K { std::uint16_t d; std::uint16_t dmin; std::uint8_t scales[12]; std::uint8_t qs[128]; };
static_assert(sizeof(BlockQ4K) == 144);

/// As BlockQ4K with q of 5 bits: the upper one of element l of group g is bit g of qh[l].
struct BlockQ5K { std::uint16_t d; std::uint16_t dmin; std::uint8_t scales[12]; std::uint8_t qh[32]; std::uint8_t qs[128]; };
static_assert(sizeof(BlockQ5K) == 176);

/// value[j] = d * scales[j / 16] * (q - 32), q of 6 bits: with j = 128 h + 32 i + l, the lower 4 are the low (i < 2) or
/// high nibble of ql[64 h + 32 (i % 2) + l], the upper 2 are bits 2i and 2i + 1 of qh[32 h + l].
struct BlockQ6K { std::uint8_t ql[128]; std::uint8_t qh[64]; std::int8_t scales[16]; std::uint16_t d; };
static_assert(sizeof(BlockQ6K) == 210);

/// value[j] = d * table[q], nibbles as in BlockQ4_0; the table is kernels/int_formats.h's.
struct BlockIq4Nl { std::uint16_t d; std::uint8_t qs[16]; };
static_assert(sizeof(BlockIq4Nl) == 18);

/// value[j] = d * (scale - 32) * table[q], groups of 32: group g has its nibbles in qs[16 g...] as in BlockQ4_0. Scales of
/// 6 bits: the lower 4 are the low (g even) or high nibble of scales_l[g / 2], the upper 2 are bits 2g, 2g + 1 of scales_h.
struct BlockIq4Xs { std::uint16_t d; std::uint16_t scales_h; std::uint8_t scales_l[4]; std::uint8_t qs[128]; };
static_assert(sizeof(BlockIq4Xs) == 136);

/// A block's bits taken apart. What the format lacks stays as it was.
struct QuantCodes {
  std::uint16_t d;
  std::uint16_t m;                    // m or dmin
  std::int8_t scale[16];              // of each group of a super block, its offset of 32 taken off
  std::uint8_t min[16];
  std::uint8_t code[kSuperBlock];     // q, unsigned: weights of q8_0 plus 128
};

/// `block` is layout_of(type).bytes long, at any alignment. Only quantised types.
void unpack_block(DType type, const std::byte* block, QuantCodes& out);

}  // namespace millrace::tensor
