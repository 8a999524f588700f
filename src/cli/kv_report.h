#pragma once

// What bench kv found, as text and as JSON. No measuring.

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

#include "cli/kv_replay.h"

namespace millrace::cli {

/// A12: 1,000 tokens behind a 1,000-token prompt when each token computes everything before it again.
struct NoCacheCost {
  int prompt_tokens = 0, new_tokens = 0;
  int measured_tokens = 0;   // of the new ones; the rest is computed from what prompts of two lengths take
  double measured_s = 0;
  double computed_s = 0;     // all new tokens, without a cache
  double prefill_s = 0;      // the prompt once
  double with_cache_s = 0;   // prompt and all new tokens, with the cache: computed from measured decode steps
  double prefills() const { return prefill_s > 0 ? computed_s / prefill_s : 0; }
};

/// A27: one block size.
struct BlockSizeRow {
  int block_tokens = 0;
  KvUse use;
  double attend_us = 0;  // attention of one decode step, all layers; 0: no model was given
};

struct KvReport {
  std::string trace;  // its file; "": made from a seed
  KvReplayOptions options;
  KvUse answer, context, exact;  // contiguous, by what is reserved
  KvUse paged;
  double int8_bytes_ratio = 0;  // bytes of a token's INT8 keys and values with their scales, of those in f16
  std::vector<BlockSizeRow> sweep;
  std::optional<NoCacheCost> no_cache;

  nlohmann::ordered_json to_json() const;
  std::string to_text() const;
};

}  // namespace millrace::cli
