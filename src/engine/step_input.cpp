#include "engine/step_input.h"

#include <utility>

#include "base/check.h"

namespace millrace::engine {
namespace {

model::Outputs outputs_of(sched::Outputs outputs) {
  switch (outputs) {
    case sched::Outputs::none:
      return model::Outputs::none;
    case sched::Outputs::last:
      return model::Outputs::last;
    case sched::Outputs::all:
      return model::Outputs::all;
    case sched::Outputs::hidden:
      return model::Outputs::hidden;
  }
  check_failed(__FILE__, __LINE__, "outputs", "no such Outputs");
}

}  // namespace

std::vector<kv::GroupSpec> group_specs(const model::RunnerInfo& info) {
  std::vector<kv::GroupSpec> specs;
  for (const auto& group : info.cache_groups) specs.push_back({group.block_tokens, group.window, group.n_blocks});
  return specs;
}

void copy_blocks(model::Runner& runner, const sched::StepPlan& plan) {
  for (const kv::BlockCopy& copy : plan.copies)
    runner.copy_blocks(copy.group, std::span(&copy.from, 1), std::span(&copy.to, 1));
}

void build_slices(const sched::Scheduler& scheduler, const sched::StepPlan& plan, int n_groups, StepInput& input) {
  input.slices.clear();
  input.tables.clear();
  input.tables.reserve(plan.slices.size() * static_cast<std::size_t>(n_groups));  // spans into it stay valid
  for (const sched::Slice& slice : plan.slices) {
    const std::size_t first_table = input.tables.size();
    for (int group = 0; group < n_groups; ++group) input.tables.push_back(scheduler.blocks(slice.seq, group));
    const auto tokens = scheduler.tokens(slice.seq);
    input.slices.push_back({
        .tokens = tokens.subspan(static_cast<std::size_t>(slice.first), static_cast<std::size_t>(slice.count)),
        .first = slice.first,
        .block_tables = std::span(input.tables).subspan(first_table),
        .outputs = outputs_of(slice.outputs),
        .whole = slice.whole,
        .adapter = slice.adapter,
    });
  }
}

}  // namespace millrace::engine
