#pragma once

// Which KV blocks of one cache group are free, in use, or kept because a later request may share them.
// Integers only: the bytes live with the runner. Single-threaded; no clock; allocates in the constructor only.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "kv/block_hash.h"

namespace millrace::kv {

/// What a full block holds: its own tokens after everything that `parent` names.
struct BlockContent {
  BlockHash name;  // chain(parent, tokens, salt)
  BlockHash parent;
  std::span<const TokenId> tokens;  // [block_tokens]
};

/// Every block is in exactly one state:
///
///   free    --take-->    used    (lowest number first, so memory is touched no earlier than needed)
///   used    --release--> cached  (last user gone, published: the least recently released is reused first)
///   used    --release--> free    (last user gone, not published)
///   cached  --share-->   used    (same content, one more user)
///   cached  --take-->    used    (evicted: nothing was free)
class BlockPool {
 public:
  BlockPool(int n_blocks, int block_tokens);

  /// One block for a single user, or nullopt when all blocks are used.
  std::optional<BlockId> take();

  /// The published block with this content. Tokens and parent are compared too, so that two contents with one hash
  /// are a miss, never a wrong answer.
  std::optional<BlockId> find(const BlockContent& content) const;

  /// One more user of a used or cached block.
  void share(BlockId id);

  /// Makes a full, written block findable. When its content is known already, the older block keeps the name and
  /// this one stays private. False when the name stands for another content: what follows must not be published.
  bool publish(BlockId id, const BlockContent& content);

  /// Takes the name away again, before the only user overwrites the block. No effect on a private block.
  void forget(BlockId id);

  /// One user less. A release more than there are users is a CHECK.
  void release(BlockId id);

  /// From now on take() notes the content that it evicts, at most one note per block until clear_evicted(). The tokens
  /// stay readable until the block is published anew; whoever keeps evicted bytes copies them before the next step.
  void note_evictions();
  struct Eviction { BlockId id; BlockContent content; };
  int n_evicted() const { return static_cast<int>(evicted_.size()); }
  Eviction evicted(int i) const;
  void clear_evicted() { evicted_.clear(); }

  /// Of a published block.
  BlockContent content(BlockId id) const;

  /// The cached blocks, the most recently released first. Allocates; for idle moments.
  std::vector<BlockId> cached() const;

  int users(BlockId id) const { return at(id).users; }
  int available() const { return n_free() + n_cached_; }
  int n_free() const { return static_cast<int>(free_.size()); }
  int n_cached() const { return n_cached_; }
  int n_used() const { return n_blocks() - available(); }
  int n_blocks() const { return static_cast<int>(blocks_.size()); }
  int block_tokens() const { return block_tokens_; }

  /// What the pool itself keeps about one block, at most.
  static std::int64_t bookkeeping_bytes(int block_tokens) {
    return static_cast<std::int64_t>(sizeof(Block) + sizeof(Note) + 3 * sizeof(int) + static_cast<std::size_t>(block_tokens) * sizeof(TokenId));
  }

  /// CHECKs that each block is in one state and in that state's list. O(n); for tests and idle moments.
  void check_invariants() const;

 private:
  struct Note {
    BlockId id;
    BlockHash name, parent;
  };
  struct Block {
    int users = 0;
    bool published = false;
    BlockHash name, parent;      // when published
    int older = -1, newer = -1;  // neighbours among the cached blocks
    int next_in_bucket = -1;     // of the published blocks whose names share a bucket
  };
  const Block& at(BlockId id) const;
  Block& at(BlockId id) { return const_cast<Block&>(std::as_const(*this).at(id)); }
  std::span<TokenId> tokens_of(int block);
  std::span<const TokenId> tokens_of(int block) const;
  int& bucket(const BlockHash& name) { return buckets_[name.low & (buckets_.size() - 1)]; }
  int find_name(const BlockHash& name) const;
  void append_cached(int block);
  void remove_cached(int block);

  int block_tokens_;
  std::vector<Block> blocks_;
  std::vector<TokenId> tokens_;  // [n_blocks, block_tokens], of the published blocks
  std::vector<int> free_;        // min-heap
  std::vector<int> buckets_;     // hash table over names: heads of the chains; a power of two of them
  std::vector<Note> evicted_;    // room for each block when noted
  bool notes_evictions_ = false;
  int oldest_ = -1, newest_ = -1, n_cached_ = 0;
};

}  // namespace millrace::kv
