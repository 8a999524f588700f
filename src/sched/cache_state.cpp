#include "sched/cache_state.h"

#include <algorithm>

#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

/// Tokens in the block at `index` of a table that holds `tokens` positions.
int filled(int index, int tokens, int block_tokens) {
  return std::clamp(tokens - index * block_tokens, 0, block_tokens);
}

}  // namespace

CacheState Scheduler::cache_state() const {
  CacheState out{.block_tokens = groups_.block_tokens(), .pools = {}, .sequences = {}};
  for (int g = 0; g < groups_.n_groups(); ++g) {
    const kv::BlockPool& pool = groups_.pool(g);
    PoolState& state = out.pools.emplace_back(PoolState{.window = groups_.window(g),
                                                        .blocks = pool.n_blocks(),
                                                        .free = pool.n_free(),
                                                        .used = pool.n_used(),
                                                        .cached = pool.n_cached()});
    std::vector<int> tokens(static_cast<std::size_t>(pool.n_blocks()));  // of a shared block: its fullest user's
    for (const auto& [id, seq] : seqs_) {
      const auto& blocks = seq->tables.groups[static_cast<std::size_t>(g)].blocks;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        if (blocks[i] == BlockId{}) continue;
        int& most = tokens[static_cast<std::size_t>(blocks[i].value)];
        most = std::max(most, filled(static_cast<int>(i), seq->done, out.block_tokens));
      }
    }
    for (int i = 0; i < pool.n_blocks(); ++i) {
      state.shared += pool.users({i}) > 1;
      state.live_tokens += tokens[static_cast<std::size_t>(i)];
    }
  }
  for (const auto& [id, seq] : seqs_) {
    const auto& [blocks, gone] = seq->tables.groups[0];
    const int n = static_cast<int>(blocks.size());
    SequenceState& state = out.sequences.emplace_back(SequenceState{.id = id,
                                                                    .running = seq->running,
                                                                    .tokens = seq->done,
                                                                    .blocks = n - gone,
                                                                    .empty_slots = n * out.block_tokens - seq->done});
    for (const BlockId block : blocks) state.shared += block != BlockId{} && groups_.pool(0).users(block) > 1;
  }
  std::ranges::sort(out.sequences, {}, &SequenceState::id);
  return out;
}

}  // namespace millrace::sched
