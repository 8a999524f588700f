#pragma once

// The block tables of sequences over one or more cache groups. Layers with full attention form one group and keep
// every position; layers with a sliding window form another and give back what fell out of it. A cached prefix
// counts only as far as every group still has it. Integers only; single-threaded.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/block_pool.h"
#include "kv/miss.h"
#include "kv/seen_blocks.h"

namespace millrace::kv {

struct GroupSpec {
  int block_tokens = 0;  // the same in every group, so that one chain of names serves all
  int window = 0;        // positions a token sees, itself included; 0 = all
  int n_blocks = 0;
};

/// The blocks of one sequence.
struct BlockTables {
  struct Group {
    std::vector<BlockId> blocks;  // entry i holds positions [i * block_tokens, (i + 1) * block_tokens)
    int gone = 0;                 // that many entries at the start fell out of the window: value -1
  };
  std::vector<Group> groups;
  std::vector<BlockHash> names;  // of the full blocks from position 0 whose content is written and final
  std::vector<BlockHash> plain;  // the same without salt
  bool publishes = true;         // false once a name turned out to stand for another content
};

/// Block `to` of a group must become a copy of `from` before the next step writes to it.
struct BlockCopy {
  int group = 0;
  BlockId from, to;
};

constexpr int blocks_for(int tokens, int block_tokens) { return tokens / block_tokens + (tokens % block_tokens != 0); }

/// The first block that a token at position `next` can still see.
constexpr int first_visible_block(int next, int window, int block_tokens) {
  return window == 0 || next < window ? 0 : (next - window + 1) / block_tokens;
}

class CacheGroups {
 public:
  /// `run_tokens`: the most positions of one sequence that are written between two calls of slide().
  CacheGroups(std::vector<GroupSpec> specs, int run_tokens);

  /// What is kept about each block of a group, at most, beside its keys and values.
  static std::int64_t bookkeeping_bytes(int block_tokens) {
    return BlockPool::bookkeeping_bytes(block_tokens) + 2 * SeenBlocks::entry_bytes(block_tokens);
  }

  int block_tokens() const { return specs_[0].block_tokens; }
  int n_groups() const { return static_cast<int>(specs_.size()); }
  int window(int group) const { return specs_[static_cast<std::size_t>(group)].window; }
  const BlockPool& pool(int group) const { return pools_[static_cast<std::size_t>(group)]; }

  /// The longest sequence that fits when no other one has a block.
  int most_tokens() const;

  /// Empty tables with memory for `tokens` positions, so that growing to that length allocates nothing.
  BlockTables make_tables(int tokens = 0) const;

  /// Shares published blocks that continue the `held` positions of `tables`, up to position `most`. Returns the
  /// positions held then. Does nothing unless `held` is the end of the tables and of a block.
  int match(BlockTables& tables, std::span<const TokenId> tokens, int held, int most, std::uint64_t salt);

  /// Why the positions of a prompt from `held` on are not in the cache. `prompt`: all of it; `tables` hold `held` of
  /// its positions, and match() has just found no more.
  Misses explain(const BlockTables& tables, std::span<const TokenId> prompt, int held, std::uint64_t salt) const;

  /// What a sequence of `prompt` would find if it came now: how many positions match() would share, the last one never, and
  /// why not the others. Changes nothing.
  struct Look {
    int held = 0;
    Misses misses;
  };
  Look look(std::span<const TokenId> prompt, std::uint64_t salt) const;

  /// How many blocks `group` would still have to give so that positions up to `end` can be written.
  int missing(const BlockTables& tables, int group, int end) const;

  /// Makes positions [first, end) writable: takes the blocks that are missing and gives up sharing the block that
  /// holds `first`; the copy this needs is appended to `copies`. All or nothing: false when blocks run out.
  bool prepare(BlockTables& tables, int first, int end, std::vector<BlockCopy>& copies);

  /// Names and publishes the full blocks in [0, written); `tokens` covers them.
  void publish(BlockTables& tables, std::span<const TokenId> tokens, int written, std::uint64_t salt);

  /// The next token to run is at `next`: gives back what no later token can see.
  void slide(BlockTables& tables, int next);

  /// Forgets positions from `tokens` on. Returns the positions still held: `tokens`, or 0 when a window has left them.
  int rewind(BlockTables& tables, int tokens);

  /// A second table over the same blocks, with memory as make_tables(tokens) gives it; rewind() it to the positions the
  /// two have in common.
  BlockTables fork(const BlockTables& tables, int tokens = 0);

  /// Gives all blocks back, the last one first, so that eviction takes the tail of a prefix before its head.
  void release(BlockTables& tables);

  /// See BlockPool; in every group.
  void note_evictions();
  void clear_evicted();

  /// For content that comes from elsewhere (a file): a block for nobody yet, nullopt when all are used. keep() gives it
  /// its content and leaves it to the prefix match, as cached as a block whose sequence has ended.
  std::optional<BlockId> take(int group) { return pools_[static_cast<std::size_t>(group)].take(); }
  void keep(int group, BlockId id, const BlockContent& content);

  /// As if a sequence of `tokens` had just ended: what of it is cached is evicted last, its tail before its head.
  /// Returns the positions that are cached.
  int touch(std::span<const TokenId> tokens, std::uint64_t salt);

  /// CHECKs the pools, and that each block has as many users as `all` (every table there is) names it.
  void check_invariants(std::span<const BlockTables* const> all) const;

 private:
  int find(const BlockTables& tables, std::span<const TokenId> tokens, int start, int most, std::uint64_t salt,
           std::vector<BlockHash>& names, std::vector<int>& runs) const;
  void release_from(BlockTables& tables, int n_blocks);
  void note(BlockTables& tables, std::span<const TokenId> tokens, std::uint64_t salt);

  std::vector<GroupSpec> specs_;
  std::vector<BlockPool> pools_;
  std::vector<int> most_held_;  // per group: blocks one sequence can hold at once
  SeenBlocks seen_;
  std::vector<BlockHash> names_;  // scratch of match
  std::vector<int> runs_;         // scratch of match
};

}  // namespace millrace::kv
