#pragma once

// The arguments that change from step to step, as ops read them. Never part of a plan's key: context lengths, block
// tables and row starts are run-time data, so decode never plans again. Filled by model/step_builder.*.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"

namespace millrace::ops {

/// How many rows a step gives a value: its leading dimension.
enum class Rows : std::uint8_t {
  fixed,    // none of the step's: a weight
  tokens,   // every token of the step
  outputs,  // the rows that come back: logits rows first, hidden rows after them
  logits,   // the rows that come back as logits
};

/// Consecutive rows of one sequence.
struct SliceArgs {
  int row;                    // of its first token, in the step's tokens or outputs
  int count;
  int first;                  // position of that token
  const std::int32_t* table;  // KV block of positions [0, block_tokens), [block_tokens, ...)
  int attend_tile;            // attention tiles per KV head before this slice (attention.h, query_tile_rows)
};

/// What a caller wants done with each row of logits, by the workers, as the step's last launch: rows in any order, each
/// once, by one worker. It may overwrite the row, and knows of nothing else in the step.
struct RowTask {
  /// logits: [vocab]. scratch: that of the worker, 64-byte aligned, with the bytes that the model was loaded with for this.
  void (*run)(void* context, int row, std::span<float> logits, std::span<std::byte> scratch) noexcept = nullptr;
  void* context = nullptr;
};

struct StepArgs {
  int tokens = 0, outputs = 0, logits = 0;
  const TokenId* token_ids = nullptr;         // [tokens]
  const std::int32_t* positions = nullptr;    // [tokens]
  const std::int32_t* output_rows = nullptr;  // [outputs]: row of each output among the tokens
  std::span<const SliceArgs> slices;          // over the tokens
  std::span<const SliceArgs> output_slices;   // over the outputs
  int attend_tiles = 0, output_attend_tiles = 0;  // per KV head, of all slices
  std::byte* logits_out = nullptr;            // f32 [logits, vocab]
  std::byte* hidden_out = nullptr;            // f32 [outputs, dim]
  RowTask row_task;                           // over logits_out

  int rows(Rows r) const { return r == Rows::tokens ? tokens : r == Rows::outputs ? outputs : r == Rows::logits ? logits : 0; }
};

}  // namespace millrace::ops
