#pragma once

// Runs steps of the model. The engine sees this interface only; its tests use a fake that makes up logits.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "ops/step.h"

namespace millrace::model {

/// Which rows of a slice come back: none (a prefill chunk), the last (to sample), all (prompt log-probabilities,
/// a draft to verify), or the hidden state of all rows, after the output norm (embeddings).
enum class Outputs : std::uint8_t { none, last, all, hidden };

/// One sequence's part of a step: tokens [first, first + tokens.size()).
struct StepSlice {
  std::span<const TokenId> tokens;  // not empty
  int first = 0;                    // position of tokens[0]
  /// One table per cache group: the blocks that hold positions [0, first + tokens.size()), in order.
  std::span<const std::span<const BlockId>> block_tables;
  Outputs outputs = Outputs::none;
  bool whole = false;  // must not be chunked: rows attend to later rows of the slice too (bidirectional encoders)
  int adapter = 0;     // LoRA slot; 0 = none
};

/// Runs on the workers for each row of the step's logits before the step is over: what draws tokens. Rows count as in
/// StepOutputs, which has them as the task left them.
using RowTask = ops::RowTask;

struct Ticket { std::int64_t step = 0; };

/// Row-major, in the order of the slices; valid until the next but one submit on the same lane.
struct StepOutputs {
  std::span<const float> logits;  // [rows asked with last or all, vocab]
  std::span<const float> hidden;  // [rows asked with hidden, dim]
};

/// One kind of cache (full attention, later sliding windows and state slots), as the scheduler needs it: integers.
struct CacheGroupInfo {
  int block_tokens = 0;
  int window = 0;  // 0: every position is kept
  int n_blocks = 0;
  std::int64_t block_bytes = 0;  // of one block, all layers: what read_blocks gives
};

struct RunnerInfo {
  int vocab_size = 0;
  int dim = 0;
  int max_positions = 0;
  int max_step_tokens = 0;   // tokens of one step, all slices together
  int max_step_outputs = 0;  // rows that come back from one step
  int max_slices = 0;
  std::vector<CacheGroupInfo> cache_groups;  // one today
  std::string_view kv_format{};              // "f16": what is cached in one format is nothing in another
  std::uint64_t fingerprint = 0;             // of all that the bytes of a cached block depend on beside its tokens
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual const RunnerInfo& info() const = 0;

  /// Hands a step to the lane and returns at once; one more may be submitted while it runs. `slices` and what they
  /// point to are copied. The blocks named are written by the step: distinct slices never share a block they write.
  /// What `task` points to stays valid until wait() returns.
  virtual Ticket submit(std::span<const StepSlice> slices, RowTask task = {}) = 0;

  /// Blocks until the step has run. Tickets are waited for in the order of their submits.
  /// Errors: exhausted (device memory), cancelled (the runner stops). Any other device failure is fatal.
  virtual Result<StepOutputs> wait(Ticket ticket) = 0;

  /// to[i] becomes a copy of from[i], in every layer, before the next step runs (copy on write of shared blocks).
  virtual void copy_blocks(int cache_group, std::span<const BlockId> from, std::span<const BlockId> to) = 0;

  /// The bytes of blocks as runners of this fingerprint keep them: blocks.size() * block_bytes, in the order of `blocks`.
  /// No step that is under way writes to them.
  virtual void read_blocks(int cache_group, std::span<const BlockId> blocks, std::span<std::byte> to) const = 0;

  /// The blocks get bytes that read_blocks gave, of this runner or another with its fingerprint. No step is under way.
  virtual void write_blocks(int cache_group, std::span<const BlockId> blocks, std::span<const std::byte> from) = 0;
};

}  // namespace millrace::model
