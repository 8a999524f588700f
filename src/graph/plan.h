#pragma once

// A graph made ready for one machine: kernels chosen, every intermediate placed in one arena, the launches of a step
// recorded. Made once per step size; run once per step. Immutable: offsets, not pointers, so one arena serves all plans.

#include <array>
#include <compare>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "graph/graph.h"
#include "ops/backend.h"
#include "ops/op.h"

namespace millrace::graph {

/// The largest step that a plan runs: its key. Context lengths are never part of it.
struct Bucket {
  int tokens = 1, outputs = 1, logits = 1;
  friend auto operator<=>(const Bucket&, const Bucket&) = default;
};

/// What a plan binds to besides its bucket.
struct PlanContext {
  const ops::Backend& backend;
  int workers = 1;
  std::int64_t l2_bytes = 512 << 10;
  int max_positions = 1;
  std::span<const ops::KvLayer> kv_layers;
  /// Packed weight of each weight value of the graph, by value id; unused entries are ignored.
  std::span<const ops::PackedWeight> weights;
};

/// What one run of a plan points at.
struct StepRun {
  const ops::StepArgs* step = nullptr;
  std::byte* arena = nullptr;
};

class Plan {
 public:
  /// Errors: unsupported (an op without a kernel), naming the op's scope.
  static Result<std::unique_ptr<Plan>> make(const Graph& graph, Bucket most, const PlanContext& context);

  /// The step's one submission; its `step` argument is a StepRun. The last launch is the step's row task, over its logits.
  std::span<const device::Launch> launches() const { return launches_; }

  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }  // per worker

  /// One row per launch, for profiles and `bench`: the ops that it runs, joined by "+". A step without a row task has no
  /// row for it.
  struct OpRow { std::string scope, op; ops::Work work; std::string shape, tiling; };
  std::vector<OpRow> rows(const ops::StepArgs& step) const;

 private:
  enum class Where : std::uint8_t { arena, token_ids, positions, output_rows, logits_out, hidden_out };
  struct Operand { Where where = Where::arena; std::size_t offset = 0; };
  static constexpr int kMaxOperands = 8, kMaxChain = 16;
  struct BoundNode {
    std::unique_ptr<ops::BoundOp> op;
    Operand operands[kMaxOperands];
    int n_operands = 0;
    std::string_view scope, name;
  };
  /// Nodes [begin, end) of order_: one, or a chain of RowOps.
  struct BoundPhase { int begin = 0, end = 0; bool by_rows = false; };
  struct BoundLaunch { const Plan* plan; std::vector<BoundPhase> phases; };
  using Io = std::array<std::byte*, kMaxOperands>;

  Result<void> bind(const Graph& graph, const Bucket& most, const PlanContext& context);
  std::vector<int> group(const Graph& graph);
  void place_values(const Graph& graph, const Bucket& most, std::span<const int> launch_of);
  static Io operands_of(const BoundNode& node, const StepRun& run);
  static bool alone(const void* launch, const void* run) noexcept;
  static void run_launch(const void* launch, const void* run, device::Worker& worker) noexcept;
  static bool row_task_alone(const void* plan, const void* run) noexcept;
  static void run_row_task(const void* plan, const void* run, device::Worker& worker) noexcept;
  void run_phase(const BoundPhase& phase, const StepRun& run, device::Worker& worker) const noexcept;

  std::vector<BoundNode> nodes_;
  std::vector<int> order_;  // nodes by launch and phase
  std::vector<BoundLaunch> bound_launches_;
  std::vector<device::Launch> launches_;
  std::size_t arena_bytes_ = 0, scratch_bytes_ = 0, logits_width_ = 0;
};

/// Bytes of a value for a bucket.
std::size_t value_bytes(const ops::ValueDesc& desc, const Bucket& bucket);

/// The smallest bucket of 1, 2, 4, ... (up to `most` each) that holds the step.
Bucket bucket_for(int tokens, int outputs, int logits, const Bucket& most);

}  // namespace millrace::graph
