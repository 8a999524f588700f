#pragma once

// The KV cache as it stands between two steps, for whoever looks into it: pools, sharing, what is reserved and holds
// nothing. Counts only.

#include <vector>

#include "base/ids.h"

namespace millrace::sched {

/// used + cached + free == blocks; shared are those of the used ones that have several users.
struct PoolState {
  int window = 0;  // positions a token sees; 0 = all
  int blocks = 0, free = 0, used = 0, cached = 0, shared = 0;
  int live_tokens = 0;  // slots of used blocks that hold a token; each block once, whoever shares it

  /// Slots of used blocks that hold nothing: the rest of last blocks.
  int empty_slots(int block_tokens) const { return used * block_tokens - live_tokens; }
};

struct SequenceState {
  SeqId id;
  bool running = false;
  int tokens = 0;              // positions in the cache
  int blocks = 0, shared = 0;  // of the first group
  int empty_slots = 0;         // of its last block
};

struct CacheState {
  int block_tokens = 0;
  std::vector<PoolState> pools;          // by cache group
  std::vector<SequenceState> sequences;  // by id
};

}  // namespace millrace::sched
