#include "tensor/quant_blocks.h"

#include <cstring>
#include <string>

#include "base/check.h"

namespace millrace::tensor {
namespace {

/// 16 bytes of nibbles: low ones to code[0..16), high ones to code[16..32).
void unpack_nibbles(const std::uint8_t* qs, std::uint8_t* code) {
  for (int j = 0; j < 16; ++j) code[j] = qs[j] & 15, code[16 + j] = qs[j] >> 4;
}

void unpack_fifth_bits(const std::uint8_t* qh, std::uint8_t* code) {
  for (int j = 0; j < 32; ++j) code[j] = static_cast<std::uint8_t>(code[j] | (qh[j / 8] >> j % 8 & 1) << 4);
}

/// 64 bytes of 2 bits.
void unpack_pairs(const std::uint8_t* qs, std::uint8_t* code) {
  for (int j = 0; j < kSuperBlock; ++j) code[j] = qs[j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3;
}

/// Scales and minimums of q4_k and q5_k.
void unpack_scales(const std::uint8_t* scales, QuantCodes& out) {
  for (int g = 0; g < 8; ++g) {
    const int low = scales[g + 4];
    out.scale[g] = static_cast<std::int8_t>(g < 4 ? scales[g] & 63 : (low & 15) | scales[g - 4] >> 6 << 4);
    out.min[g] = static_cast<std::uint8_t>(g < 4 ? low & 63 : low >> 4 | scales[g] >> 6 << 4);
  }
}

void unpack(const BlockQ4_0& b, QuantCodes& out) { unpack_nibbles(b.qs, out.code); }

void unpack(const BlockQ4_1& b, QuantCodes& out) {
  out.m = b.m;
  unpack_nibbles(b.qs, out.code);
}

void unpack(const BlockQ5_0& b, QuantCodes& out) {
  unpack_nibbles(b.qs, out.code);
  unpack_fifth_bits(b.qh, out.code);
}

void unpack(const BlockQ5_1& b, QuantCodes& out) {
  out.m = b.m;
  unpack_nibbles(b.qs, out.code);
  unpack_fifth_bits(b.qh, out.code);
}

void unpack(const BlockQ8_0& b, QuantCodes& out) {
  for (int j = 0; j < 32; ++j) out.code[j] = static_cast<std::uint8_t>(b.qs[j] ^ 128);
}

void unpack(const BlockQ2K& b, QuantCodes& out) {
  out.m = b.dmin;
  for (int g = 0; g < 16; ++g) out.scale[g] = static_cast<std::int8_t>(b.scales[g] & 15), out.min[g] = b.scales[g] >> 4;
  unpack_pairs(b.qs, out.code);
}

void unpack(const BlockQ3K& b, QuantCodes& out) {
  for (int g = 0; g < 16; ++g) {
    const int low = b.scales[g % 8] >> g / 8 * 4 & 15, high = b.scales[8 + g % 4] >> g / 4 * 2 & 3;
    out.scale[g] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  unpack_pairs(b.qs, out.code);
  for (int j = 0; j < kSuperBlock; ++j)
    out.code[j] = static_cast<std::uint8_t>(out.code[j] | (b.hmask[j % 32] >> j / 32 & 1) << 2);
}

void unpack(const BlockQ4K& b, QuantCodes& out) {
  out.m = b.dmin;
  unpack_scales(b.scales, out);
  for (int j = 0; j < kSuperBlock; ++j) out.code[j] = b.qs[j / 64 * 32 + j % 32] >> j % 64 / 32 * 4 & 15;
}

void unpack(const BlockQ5K& b, QuantCodes& out) {
  out.m = b.dmin;
  unpack_scales(b.scales, out);
  for (int j = 0; j < kSuperBlock; ++j)
    out.code[j] = static_cast<std::uint8_t>((b.qs[j / 64 * 32 + j % 32] >> j % 64 / 32 * 4 & 15) |
                                            (b.qh[j % 32] >> j / 32 & 1) << 4);
}

void unpack(const BlockQ6K& b, QuantCodes& out) {
  std::memcpy(out.scale, b.scales, sizeof(b.scales));
  for (int j = 0; j < kSuperBlock; ++j) {
    const int h = j / 128, i = j % 128 / 32, l = j % 32;
    const int low = b.ql[64 * h + i % 2 * 32 + l] >> i / 2 * 4 & 15, high = b.qh[32 * h + l] >> 2 * i & 3;
    out.code[j] = static_cast<std::uint8_t>(low | high << 4);
  }
}

void unpack(const BlockIq4Nl& b, QuantCodes& out) { unpack_nibbles(b.qs, out.code); }

void unpack(const BlockIq4Xs& b, QuantCodes& out) {
  for (int g = 0; g < 8; ++g) {
    const int low = b.scales_l[g / 2] >> g % 2 * 4 & 15, high = b.scales_h >> 2 * g & 3;
    out.scale[g] = static_cast<std::int8_t>((low | high << 4) - 32);
    unpack_nibbles(b.qs + 16 * g, out.code + 32 * g);
  }
}

template <class Block>
void unpack_as(const std::byte* bytes, QuantCodes& out) {
  Block block;
  std::memcpy(&block, bytes, sizeof(Block));
  out.d = block.d;
  unpack(block, out);
}

}  // namespace

void unpack_block(DType type, const std::byte* block, QuantCodes& out) {
  switch (type) {
    case DType::q4_0:
      return unpack_as<BlockQ4_0>(block, out);
    case DType::q4_1:
      return unpack_as<BlockQ4_1>(block, out);
    case DType::q5_0:
      return unpack_as<BlockQ5_0>(block, out);
    case DType::q5_1:
      return unpack_as<BlockQ5_1>(block, out);
    case DType::q8_0:
      return unpack_as<BlockQ8_0>(block, out);
    case DType::q2_k:
      return unpack_as<BlockQ2K>(block, out);
    case DType::q3_k:
      return unpack_as<BlockQ3K>(block, out);
    case DType::q4_k:
      return unpack_as<BlockQ4K>(block, out);
    case DType::q5_k:
      return unpack_as<BlockQ5K>(block, out);
    case DType::q6_k:
      return unpack_as<BlockQ6K>(block, out);
    case DType::iq4_nl:
      return unpack_as<BlockIq4Nl>(block, out);
    case DType::iq4_xs:
      return unpack_as<BlockIq4Xs>(block, out);
    default:
      MILLRACE_CHECK(false, "no blocks of " + std::string(to_string(type)));
  }
}

}  // namespace millrace::tensor
