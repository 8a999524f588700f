#include "model/kv_store.h"

#include <cstring>
#include <string>

#include "base/check.h"

namespace millrace::model {

std::int64_t KvStore::block_bytes(const ModelConfig& config, KvFormat format, int block_tokens) {
  return kv_bytes_per_token(config, format) * block_tokens;
}

Result<KvStore> KvStore::make(const ModelConfig& c, KvFormat format, int n_blocks, int block_tokens, device::Device& device) {
  const std::int64_t head = block_tokens * ops::kv_vector_bytes(dtype_of(format), c.head_dim), block = head * c.n_kv_heads, plane = block * n_blocks;
  KvStore store;
  auto buffer = device.allocate(static_cast<std::size_t>(2 * plane * c.n_layers));
  if (!buffer) return std::move(buffer).error().in("room for the KV cache");
  store.buffer_ = *std::move(buffer);
  for (int layer = 0; layer < c.n_layers; ++layer) {
    std::byte* k = store.buffer_.data() + 2 * plane * layer;
    store.layers_.push_back({k, k + plane, block, head, block_tokens, dtype_of(format)});
  }
  return store;
}

void KvStore::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  MILLRACE_CHECK(from.size() == to.size(), "copy of " + std::to_string(from.size()) + " blocks to " + std::to_string(to.size()));
  for (const ops::KvLayer& layer : layers_)
    for (std::size_t i = 0; i < from.size(); ++i)
      for (std::byte* plane : {layer.k, layer.v})
        std::memcpy(plane + to[i].value * layer.block_stride, plane + from[i].value * layer.block_stride, static_cast<std::size_t>(layer.block_stride));
}

void KvStore::read_block(BlockId block, std::span<std::byte> to) const {
  std::byte* at = to.data();
  for (const ops::KvLayer& layer : layers_)
    for (const std::byte* plane : {layer.k, layer.v}) {
      const auto bytes = static_cast<std::size_t>(layer.block_stride);
      std::memcpy(at, plane + block.value * layer.block_stride, bytes);
      at += bytes;
    }
  MILLRACE_CHECK(at == to.data() + to.size(), "a block read into " + std::to_string(to.size()) + " bytes");
}

void KvStore::write_block(BlockId block, std::span<const std::byte> from) {
  const std::byte* at = from.data();
  for (const ops::KvLayer& layer : layers_)
    for (std::byte* plane : {layer.k, layer.v}) {
      const auto bytes = static_cast<std::size_t>(layer.block_stride);
      std::memcpy(plane + block.value * layer.block_stride, at, bytes);
      at += bytes;
    }
  MILLRACE_CHECK(at == from.data() + from.size(), "a block written from " + std::to_string(from.size()) + " bytes");
}

}  // namespace millrace::model
