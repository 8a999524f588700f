#include "kv/block_pool.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <string>

#include "base/check.h"

namespace millrace::kv {

BlockPool::BlockPool(int n_blocks, int block_tokens) : block_tokens_(block_tokens) {
  MILLRACE_CHECK(n_blocks >= 1 && block_tokens >= 1, "a pool holds at least one block of one token");
  const auto n = static_cast<std::size_t>(n_blocks);
  blocks_.resize(n);
  tokens_.resize(n * static_cast<std::size_t>(block_tokens));
  free_.resize(n);
  std::iota(free_.begin(), free_.end(), 0);  // ascending is a min-heap
  buckets_.assign(std::bit_ceil(n), -1);
}

std::optional<BlockId> BlockPool::take() {
  int block = -1;
  if (!free_.empty()) {
    std::ranges::pop_heap(free_, std::greater<>{});
    block = free_.back();
    free_.pop_back();
  } else if (oldest_ >= 0) {
    block = oldest_;
    remove_cached(block);
    if (notes_evictions_) evicted_.push_back({{block}, at({block}).name, at({block}).parent});
    forget({block});
  } else {
    return std::nullopt;
  }
  at({block}).users = 1;
  return BlockId{block};
}

std::optional<BlockId> BlockPool::find(const BlockContent& content) const {
  const int block = find_name(content.name);
  if (block < 0) return std::nullopt;
  const bool same = at({block}).parent == content.parent && std::ranges::equal(tokens_of(block), content.tokens);
  return same ? std::optional(BlockId{block}) : std::nullopt;
}

void BlockPool::share(BlockId id) {
  Block& block = at(id);
  MILLRACE_CHECK(block.users > 0 || block.published, "share of free block " + std::to_string(id.value));
  if (block.users++ == 0) remove_cached(id.value);
}

bool BlockPool::publish(BlockId id, const BlockContent& content) {
  Block& block = at(id);
  MILLRACE_CHECK(block.users > 0, "publish of unused block " + std::to_string(id.value));
  MILLRACE_CHECK(static_cast<int>(content.tokens.size()) == block_tokens_, "publish of a block that is not full");
  if (find_name(content.name) >= 0) return find(content).has_value();
  MILLRACE_CHECK(!block.published, "block " + std::to_string(id.value) + " was published as something else");
  block.published = true;
  block.name = content.name;
  block.parent = content.parent;
  block.next_in_bucket = std::exchange(bucket(content.name), id.value);
  std::ranges::copy(content.tokens, tokens_of(id.value).begin());
  return true;
}

void BlockPool::forget(BlockId id) {
  Block& block = at(id);
  if (!block.published) return;
  int* link = &bucket(block.name);
  while (*link != id.value) link = &at({*link}).next_in_bucket;
  *link = std::exchange(block.next_in_bucket, -1);
  block.published = false;
}

void BlockPool::release(BlockId id) {
  Block& block = at(id);
  MILLRACE_CHECK(block.users > 0, "double release of block " + std::to_string(id.value));
  if (--block.users > 0) return;
  if (block.published) {
    append_cached(id.value);
  } else {
    free_.push_back(id.value);
    std::ranges::push_heap(free_, std::greater<>{});
  }
}

void BlockPool::note_evictions() {
  notes_evictions_ = true;
  evicted_.reserve(blocks_.size());
}

BlockPool::Eviction BlockPool::evicted(int i) const {
  const Note& note = evicted_.at(static_cast<std::size_t>(i));
  return {note.id, {note.name, note.parent, tokens_of(note.id.value)}};
}

BlockContent BlockPool::content(BlockId id) const {
  const Block& block = at(id);
  MILLRACE_CHECK(block.published, "block " + std::to_string(id.value) + " has no content");
  return {block.name, block.parent, tokens_of(id.value)};
}

std::vector<BlockId> BlockPool::cached() const {
  std::vector<BlockId> out;
  for (int block = newest_; block >= 0; block = at({block}).older) out.push_back({block});
  return out;
}

void BlockPool::check_invariants() const {
  std::vector<int> seen(blocks_.size());
  for (const int block : free_) {
    ++seen[static_cast<std::size_t>(block)];
    MILLRACE_CHECK(!at({block}).published, "free block " + std::to_string(block) + " has a name");
  }
  int cached = 0;
  for (int block = oldest_; block >= 0; block = at({block}).newer, ++cached) {
    ++seen[static_cast<std::size_t>(block)];
    MILLRACE_CHECK(at({block}).published, "cached block " + std::to_string(block) + " has no name");
  }
  MILLRACE_CHECK(cached == n_cached_,
                 std::to_string(cached) + " blocks are cached, counted " + std::to_string(n_cached_));
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto& block = blocks_[i];
    MILLRACE_CHECK(seen[i] == (block.users == 0 ? 1 : 0), "block " + std::to_string(i) + " is in the wrong list");
    if (block.published)
      MILLRACE_CHECK(find_name(block.name) == static_cast<int>(i), "block " + std::to_string(i) + " lost its name");
  }
}

const BlockPool::Block& BlockPool::at(BlockId id) const {
  MILLRACE_CHECK(id.value >= 0 && id.value < n_blocks(), "no block " + std::to_string(id.value));
  return blocks_[static_cast<std::size_t>(id.value)];
}

std::span<const TokenId> BlockPool::tokens_of(int block) const {
  const auto n = static_cast<std::size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<std::size_t>(block) * n, n);
}

std::span<TokenId> BlockPool::tokens_of(int block) {
  const auto n = static_cast<std::size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<std::size_t>(block) * n, n);
}

int BlockPool::find_name(const BlockHash& name) const {
  int block = buckets_[name.low & (buckets_.size() - 1)];
  while (block >= 0 && at({block}).name != name) block = at({block}).next_in_bucket;
  return block;
}

void BlockPool::append_cached(int block) {
  Block& b = at({block});
  b.older = newest_;
  b.newer = -1;
  (newest_ >= 0 ? at({newest_}).newer : oldest_) = block;
  newest_ = block;
  ++n_cached_;
}

void BlockPool::remove_cached(int block) {
  const Block& b = at({block});
  (b.older >= 0 ? at({b.older}).newer : oldest_) = b.newer;
  (b.newer >= 0 ? at({b.newer}).older : newest_) = b.older;
  --n_cached_;
}

}  // namespace millrace::kv
