#include "model/step_builder.h"

#include <string>

#include "base/check.h"
#include "ops/attention.h"

namespace millrace::model {

void StepBuilder::reserve(int tokens, int outputs, int slices, std::size_t table_entries) {
  const auto n_tokens = static_cast<std::size_t>(tokens), n_slices = static_cast<std::size_t>(slices);
  ids_.reserve(n_tokens), positions_.reserve(n_tokens), output_rows_.reserve(static_cast<std::size_t>(outputs));
  tables_.reserve(table_entries), slices_.reserve(n_slices), output_slices_.reserve(n_slices), table_at_.reserve(n_slices);
}

const ops::StepArgs& StepBuilder::build(std::span<const StepSlice> slices) {
  ids_.clear(), positions_.clear(), output_rows_.clear(), tables_.clear(), slices_.clear(), output_slices_.clear(), table_at_.clear();
  step_ = {};
  // All tables first: pointers into the array stay good only when it no longer grows.
  for (const StepSlice& s : slices) {
    MILLRACE_CHECK(!s.tokens.empty() && s.block_tables.size() == 1, "a slice without tokens or block table");
    MILLRACE_CHECK(!s.whole && s.adapter == 0, "whole slices and adapters have no model yet");
    table_at_.push_back(tables_.size());
    for (const BlockId b : s.block_tables[0]) tables_.push_back(b.value);
  }
  for (std::size_t i = 0; i < slices.size(); ++i) add_slice(slices[i], table_at_[i]);

  // Results that become logits come first, hidden states after them.
  for (const bool hidden : {false, true})
    for (std::size_t i = 0; i < slices.size(); ++i)
      if (slices[i].outputs != Outputs::none && (slices[i].outputs == Outputs::hidden) == hidden) add_outputs(slices[i], slices_[i].row, table_at_[i]);

  step_.token_ids = ids_.data();
  step_.positions = positions_.data();
  step_.output_rows = output_rows_.data();
  step_.slices = slices_;
  step_.output_slices = output_slices_;
  return step_;
}

void StepBuilder::add_slice(const StepSlice& s, std::size_t table_at) {
  const int count = static_cast<int>(s.tokens.size());
  slices_.push_back({step_.tokens, count, s.first, tables_.data() + table_at, step_.attend_tiles});
  for (int i = 0; i < count; ++i) {
    ids_.push_back(s.tokens[static_cast<std::size_t>(i)]);
    positions_.push_back(s.first + i);
  }
  step_.tokens += count;
  step_.attend_tiles += ops::attend_tiles(count, group_);
}

void StepBuilder::add_outputs(const StepSlice& s, int row, std::size_t table_at) {
  const int total = static_cast<int>(s.tokens.size()), count = s.outputs == Outputs::last ? 1 : total, skipped = total - count;
  output_slices_.push_back({step_.outputs, count, s.first + skipped, tables_.data() + table_at, step_.output_attend_tiles});
  for (int i = 0; i < count; ++i) output_rows_.push_back(row + skipped + i);
  step_.outputs += count;
  if (s.outputs != Outputs::hidden) step_.logits += count;
  step_.output_attend_tiles += ops::attend_tiles(count, group_);
}

}  // namespace millrace::model
