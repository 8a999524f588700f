#pragma once

// From the scheduler's words to the runner's: cache groups, copies and slices. No decisions.

#include <span>
#include <vector>

#include "kv/cache_groups.h"
#include "model/runner.h"
#include "sched/scheduler.h"

namespace millrace::engine {

std::vector<kv::GroupSpec> group_specs(const model::RunnerInfo& info);

/// Tells the runner which shared blocks the step is going to write a copy of.
void copy_blocks(model::Runner& runner, const sched::StepPlan& plan);

/// Memory of one step's slices, kept to be used again.
struct StepInput {
  std::vector<model::StepSlice> slices;
  std::vector<std::span<const BlockId>> tables;  // [slices, cache groups]
};

/// The plan's slices; they point into `input` and the scheduler, and are valid until either changes.
void build_slices(const sched::Scheduler& scheduler, const sched::StepPlan& plan, int n_groups, StepInput& input);

}  // namespace millrace::engine
