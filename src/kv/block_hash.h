#pragma once

// Names for the content of KV blocks: 128 bits over a block's tokens and all tokens before it.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"

namespace millrace::kv {

struct BlockHash {
  std::uint64_t low = 0, high = 0;
  friend constexpr bool operator==(const BlockHash&, const BlockHash&) = default;
};

/// Stands before the first block of every sequence.
inline constexpr BlockHash kRootHash{0x9e3779b97f4a7c15, 0xf39cc0605cedc834};

/// The name of the block that follows `parent` and holds `tokens`.
///
///   salt  what else the content depends on: model, KV format, adapter, tenant. Other salt, other names.
BlockHash chain(const BlockHash& parent, std::span<const TokenId> tokens, std::uint64_t salt);

/// What a sequence's blocks are salted with.
///
///   model    the runner's fingerprint: weights, kernels, numerics, KV format
///   adapter  its slot; 0 = none
///   tenant   any bytes; who gives others shares nothing
std::uint64_t salt_of(std::uint64_t model, int adapter, std::string_view tenant);

}  // namespace millrace::kv
