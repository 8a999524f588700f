#pragma once

// The bytes of the KV cache: one allocation, [layer][K | V][block][kv_head][block_tokens x head_dim, int8: and their
// scales], so that a block is one range. Which block is whose is kv/'s business; this file knows where a block lies.

#include <span>
#include <vector>

#include "base/ids.h"
#include "device/device.h"
#include "model/kv_format.h"

namespace millrace::model {

class KvStore {
 public:
  /// Pages are touched when a block is first written. Errors: exhausted.
  static Result<KvStore> make(const ModelConfig& config, KvFormat format, int n_blocks, int block_tokens, device::Device& device);

  std::span<const ops::KvLayer> layers() const { return layers_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(buffer_.size()); }

  /// to[i] = from[i] in every layer.
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  /// The bytes of `block` in one piece, layer by layer, K before V: `to` and `from` have block_bytes().
  void read_block(BlockId block, std::span<std::byte> to) const;
  void write_block(BlockId block, std::span<const std::byte> from);

  static std::int64_t block_bytes(const ModelConfig& config, KvFormat format, int block_tokens);

 private:
  device::Buffer buffer_;
  std::vector<ops::KvLayer> layers_;
};

}  // namespace millrace::model
