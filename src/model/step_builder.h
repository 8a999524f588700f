#pragma once

// From the engine's slices to the arguments that ops read: flat arrays, row numbers, tile counts. Keeps its memory, so
// that a decode step allocates nothing.

#include <span>
#include <vector>

#include "model/runner.h"
#include "ops/step.h"

namespace millrace::model {

class StepBuilder {
 public:
  /// Query heads per KV head, for attention tiles.
  explicit StepBuilder(int group) : group_(group) {}

  /// Steps of no more than this allocate nothing (P15); `table_entries`: of all block tables together.
  void reserve(int tokens, int outputs, int slices, std::size_t table_entries);

  /// What `slices` point to is copied. The result is valid until the next build.
  const ops::StepArgs& build(std::span<const StepSlice> slices);

  const ops::StepArgs& step() const { return step_; }
  void set_row_task(const ops::RowTask& task) { step_.row_task = task; }
  void set_results(std::byte* logits, std::byte* hidden) { step_.logits_out = logits, step_.hidden_out = hidden; }

 private:
  void add_slice(const StepSlice& slice, std::size_t table_at);
  void add_outputs(const StepSlice& slice, int row, std::size_t table_at);

  int group_;
  ops::StepArgs step_;
  std::vector<TokenId> ids_;
  std::vector<std::int32_t> positions_, output_rows_, tables_;
  std::vector<ops::SliceArgs> slices_, output_slices_;
  std::vector<std::size_t> table_at_;
};

}  // namespace millrace::model
