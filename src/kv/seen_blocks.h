#pragma once

// What has been published lately, still cached or not: the memory behind "evicted", "diverged" and "salt". Integers
// only; knows no block, no user and no pool. Bounded: the entry that was noted longest ago gives way. Allocates in the
// constructor only; a note is O(1).

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/block_hash.h"

namespace millrace::kv {

/// The content of a full block. Names are made without salt, so that one content has one name for everybody.
struct SeenContent {
  BlockHash name, parent;
  std::span<const TokenId> tokens;  // [block_tokens]
};

class SeenBlocks {
 public:
  /// Takes n_entries * entry_bytes(block_tokens).
  SeenBlocks(int n_entries, int block_tokens);

  /// `content` is published under `salt`, or was used again: it is remembered longest from now.
  void note(const SeenContent& content, std::uint64_t salt);

  enum class Known { never, under_other_salts, under_this_salt };
  Known find(const SeenContent& content, std::uint64_t salt) const;

  /// What follows `parent` under `salt` and agrees longest with `tokens`; of equals the one noted last. Looks at the
  /// kMostCompared noted last.
  struct Nearest {
    int common = -1;    // tokens; -1: nothing that follows `parent` is known
    TokenId next = -1;  // the known token behind them, when common < tokens.size()
  };
  Nearest nearest(const BlockHash& parent, std::span<const TokenId> tokens, std::uint64_t salt) const;

  static constexpr int kMostCompared = 256;

  static std::int64_t entry_bytes(int block_tokens) {
    return static_cast<std::int64_t>(sizeof(Entry) + 4 * sizeof(int) + static_cast<std::size_t>(block_tokens) * sizeof(TokenId));
  }

 private:
  struct Entry {
    BlockHash name, parent;
    std::uint64_t salt = 0;
    int next_of_name = -1;                             // entries whose names share a bucket
    int next_of_parent = -1, previous_of_parent = -1;  // likewise of parents; noted last comes first
    int older = -1, newer = -1;
    bool used = false;
  };
  Entry& at(int entry) { return entries_[static_cast<std::size_t>(entry)]; }
  const Entry& at(int entry) const { return entries_[static_cast<std::size_t>(entry)]; }
  std::span<const TokenId> tokens_of(int entry) const;
  std::size_t bucket(const BlockHash& hash) const { return hash.low & (by_name_.size() - 1); }
  int find_entry(const SeenContent& content, std::uint64_t salt) const;
  void link(int entry);
  void unlink(int entry);
  void move_to_newest(int entry);

  int block_tokens_;
  std::vector<Entry> entries_;
  std::vector<TokenId> tokens_;           // [entries, block_tokens]
  std::vector<int> by_name_, by_parent_;  // heads of the chains; a power of two of them
  int oldest_ = 0, newest_ = 0;
};

}  // namespace millrace::kv
