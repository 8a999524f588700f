#pragma once

// What a model that runs takes of the memory there is, known before anything is loaded: plain numbers, the decision how
// large the KV cache may be, and the table that is printed at start. The numbers come from model::estimate_memory and
// device::machine_memory; nothing is measured here.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/byte_size.h"
#include "device/memory_info.h"
#include "model/model.h"

namespace millrace::cli {

struct MemoryLedger {
  device::MemoryInfo machine;      // before loading: what this program holds by then is not free
  std::int64_t program_bytes = 0;  // resident before loading: code, vocabulary, the file's header
  std::int64_t weights_bytes = 0;
  std::int64_t plans_bytes = 0;    // intermediates of the largest step
  std::int64_t scratch_bytes = 0;  // of the workers; logits and hidden states of two steps; the heap; buffers of --kv-disk
  std::int64_t kv_bytes = 0;       // the pool, and the numbers kept about its blocks
  std::int64_t kv_tokens = 0;
  std::string kv_format;

  std::int64_t loaded_bytes() const { return weights_bytes + plans_bytes + scratch_bytes + kv_bytes; }
  std::int64_t total_bytes() const { return program_bytes + loaded_bytes(); }
};

/// Everything but the KV cache.
inline std::int64_t fixed_bytes(const model::MemoryEstimate& e) { return e.total() - e.kv_bytes; }

/// Tokens that `wish` holds in whole blocks, when `free_bytes` are left after weights, plans and scratch. `block_bytes`:
/// of one block, everything that grows with the pool. Errors: exhausted (not one block), with the numbers.
Result<std::int64_t> kv_tokens_of(const MemoryAmount& wish, std::int64_t free_bytes, std::int64_t block_bytes, int block_tokens);

/// All of it fits into what is free: later, first use of a page cannot fail. Errors: exhausted, with the numbers.
Result<void> check_fits(const MemoryLedger& ledger);

/// One row per part, the total, and "holds N tokens of context".
std::string ledger_text(const MemoryLedger& ledger);

}  // namespace millrace::cli
