#include "kv/block_hash.h"

#include <xxhash.h>

namespace millrace::kv {

/// Hash of (parent, salt, hash of tokens): two calls over contiguous bytes need no streaming state and no copy.
BlockHash chain(const BlockHash& parent, std::span<const TokenId> tokens, std::uint64_t salt) {
  const XXH128_hash_t own = XXH3_128bits(tokens.data(), tokens.size_bytes());
  const std::uint64_t link[] = {parent.low, parent.high, salt, own.low64, own.high64};
  const XXH128_hash_t whole = XXH3_128bits(link, sizeof link);
  return {whole.low64, whole.high64};
}

std::uint64_t salt_of(std::uint64_t model, int adapter, std::string_view tenant) {
  const std::uint64_t parts[] = {model, static_cast<std::uint64_t>(adapter), tenant.size(),
                                 XXH3_64bits(tenant.data(), tenant.size())};
  return XXH3_64bits(parts, sizeof parts);
}

}  // namespace millrace::kv
