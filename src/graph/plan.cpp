#include "graph/plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "base/check.h"
#include "graph/launches.h"
#include "graph/memory_plan.h"

namespace millrace::graph {

using ops::Rows;

std::size_t value_bytes(const ops::ValueDesc& desc, const Bucket& bucket) {
  const int rows = desc.rows == Rows::tokens ? bucket.tokens : desc.rows == Rows::outputs ? bucket.outputs : bucket.logits;
  return desc.row_bytes() * static_cast<std::size_t>(std::max(rows, 1));
}

Bucket bucket_for(int tokens, int outputs, int logits, const Bucket& most) {
  const auto up = [](int n, int limit) { return n <= 1 ? 1 : std::min(limit, static_cast<int>(std::bit_ceil(static_cast<unsigned>(n)))); };
  return {up(tokens, most.tokens), up(outputs, most.outputs), up(logits, most.logits)};
}

Result<std::unique_ptr<Plan>> Plan::make(const Graph& graph, Bucket most, const PlanContext& context) {
  auto plan = std::make_unique<Plan>();
  MILLRACE_TRY_VOID(plan->bind(graph, most, context));
  plan->place_values(graph, most, plan->group(graph));
  for (const BoundLaunch& launch : plan->bound_launches_)
    plan->launches_.push_back({run_launch, &launch, plan->nodes_[static_cast<std::size_t>(plan->order_[static_cast<std::size_t>(launch.phases[0].begin)])].name.data(), alone});
  plan->logits_width_ = graph.value(graph.logits).desc.row_bytes() / sizeof(float);
  plan->launches_.push_back({run_row_task, plan.get(), "row_task", row_task_alone});
  return plan;
}

Result<void> Plan::bind(const Graph& graph, const Bucket& most, const PlanContext& context) {
  const ops::SetupContext setup{context.backend.kernels, context.workers, context.l2_bytes, most.tokens, most.outputs, most.logits, context.max_positions, context.kv_layers};
  nodes_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    std::vector<ops::OpInput> inputs;
    for (const ValueId id : node.inputs) {
      const bool is_weight = graph.value(id).source == Source::weight;
      inputs.push_back({graph.value(id).desc, is_weight ? &context.weights[static_cast<std::size_t>(id.value)] : nullptr});
    }
    auto op = node.op->setup(setup, inputs);
    if (!op) return std::move(op).error().in(node.scope);
    scratch_bytes_ = std::max(scratch_bytes_, (*op)->scratch_bytes());
    nodes_.push_back({.op = *std::move(op), .operands = {}, .scope = node.scope, .name = node.op->name()});
  }
  return {};
}

/// Fills order_ and bound_launches_. Returns the launch of each node.
std::vector<int> Plan::group(const Graph& graph) {
  std::vector<int> producer(graph.values.size(), -1);
  std::map<int, int> last_of_layer;  // node that used a layer's KV cache last
  std::vector<LaunchNode> wanted;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ops::RowOp* row_op = nodes_[n].op->by_rows();
    LaunchNode node{{}, row_op ? static_cast<int>(row_op->rows()) : -1};
    for (const ValueId id : graph.nodes[n].inputs)
      if (const int p = producer[static_cast<std::size_t>(graph.storage(id).value)]; p >= 0) node.after.push_back(p);
    for (const ValueId id : graph.nodes[n].outputs) producer[static_cast<std::size_t>(id.value)] = static_cast<int>(n);
    if (const int layer = graph.nodes[n].op->kv_layer(); layer >= 0) {
      const auto [last, first_use] = last_of_layer.try_emplace(layer);
      if (!first_use) node.after.push_back(last->second);
      last->second = static_cast<int>(n);
    }
    wanted.push_back(std::move(node));
  }
  std::vector<int> launch_of(nodes_.size());
  for (const std::vector<Phase>& phases : group_launches(wanted, device::kMaxTileLoops)) {
    BoundLaunch launch{this, {}};
    for (const Phase& phase : phases) {
      MILLRACE_CHECK(phase.nodes.size() <= kMaxChain, "a chain of " + std::to_string(phase.nodes.size()) + " row ops");
      const int begin = static_cast<int>(order_.size());
      order_.insert(order_.end(), phase.nodes.begin(), phase.nodes.end());
      launch.phases.push_back({begin, static_cast<int>(order_.size()), phase.by_rows});
      for (const int n : phase.nodes) launch_of[static_cast<std::size_t>(n)] = static_cast<int>(bound_launches_.size());
    }
    bound_launches_.push_back(std::move(launch));
  }
  return launch_of;
}

/// Every value that is not a weight gets its place. The arena packs intermediates by lifetime, counted in launches: what
/// one launch touches is alive all through it. Inputs and the step's results lie with their owners.
void Plan::place_values(const Graph& graph, const Bucket& most, std::span<const int> launch_of) {
  std::vector<Lifetime> lifetimes;
  std::vector<int> lifetime_of(graph.values.size(), -1);
  std::vector<std::size_t> shared_of(graph.nodes.size());  // lifetime of what the workers of a node share
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (const std::size_t bytes = nodes_[n].op->shared_bytes(); bytes > 0) {
      shared_of[n] = lifetimes.size();
      lifetimes.push_back({bytes, launch_of[n], launch_of[n]});
    }
    for (const ValueId id : graph.nodes[n].outputs) {
      lifetime_of[static_cast<std::size_t>(id.value)] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({value_bytes(graph.value(id).desc, most), launch_of[n], launch_of[n]});
    }
    for (const ValueId id : graph.nodes[n].inputs)
      if (const int l = lifetime_of[static_cast<std::size_t>(graph.storage(id).value)]; l >= 0) {
        int& last = lifetimes[static_cast<std::size_t>(l)].last;
        last = std::max(last, launch_of[n]);
      }
  }
  const MemoryPlan placed = plan_memory(lifetimes);
  arena_bytes_ = placed.peak_bytes;

  const auto place_of = [&](ValueId id) -> Operand {
    const ValueId own = graph.storage(id);
    const Source source = graph.value(own).source;
    if (source == Source::token_ids) return {Where::token_ids};
    if (source == Source::positions) return {Where::positions};
    if (source == Source::output_rows) return {Where::output_rows};
    if (own == graph.storage(graph.logits)) return {Where::logits_out};
    if (own == graph.storage(graph.hidden)) return {Where::hidden_out};
    return {Where::arena, placed.offsets[static_cast<std::size_t>(lifetime_of[static_cast<std::size_t>(own.value)])]};
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    BoundNode& node = nodes_[n];
    const auto add = [&](Operand operand) {
      MILLRACE_CHECK(node.n_operands < kMaxOperands, "too many operands in " + std::string(node.scope));
      node.operands[node.n_operands++] = operand;
    };
    for (const ValueId id : graph.nodes[n].inputs)
      if (graph.value(id).source != Source::weight) add(place_of(id));
    for (const ValueId id : graph.nodes[n].outputs) add(place_of(id));
    if (node.op->shared_bytes() > 0) add({Where::arena, placed.offsets[shared_of[n]]});
  }
}

Plan::Io Plan::operands_of(const BoundNode& node, const StepRun& run) {
  Io io{};
  for (int i = 0; i < node.n_operands; ++i) {
    const Operand& operand = node.operands[i];
    std::byte*& p = io[static_cast<std::size_t>(i)];
    switch (operand.where) {
      case Where::arena: p = run.arena + operand.offset; break;
      case Where::token_ids: p = reinterpret_cast<std::byte*>(const_cast<TokenId*>(run.step->token_ids)); break;
      case Where::positions: p = reinterpret_cast<std::byte*>(const_cast<std::int32_t*>(run.step->positions)); break;
      case Where::output_rows: p = reinterpret_cast<std::byte*>(const_cast<std::int32_t*>(run.step->output_rows)); break;
      case Where::logits_out: p = run.step->logits_out; break;
      case Where::hidden_out: p = run.step->hidden_out; break;
    }
  }
  return io;
}

/// One tile of rows, and nothing else: the norms and sums of a decode step.
bool Plan::alone(const void* launch, const void* run) noexcept {
  const auto& [plan, phases] = *static_cast<const BoundLaunch*>(launch);
  if (phases.size() != 1 || !phases[0].by_rows) return false;
  const auto first = static_cast<std::size_t>(plan->order_[static_cast<std::size_t>(phases[0].begin)]);
  const int rows = static_cast<const StepRun*>(run)->step->rows(plan->nodes_[first].op->by_rows()->rows());
  return rows <= ops::RowOp::tile_rows(rows);
}

void Plan::run_launch(const void* launch, const void* run, device::Worker& worker) noexcept {
  const auto& bound = *static_cast<const BoundLaunch*>(launch);
  for (const BoundPhase& phase : bound.phases) bound.plan->run_phase(phase, *static_cast<const StepRun*>(run), worker);
}

bool Plan::row_task_alone(const void*, const void* run) noexcept {
  const ops::StepArgs& step = *static_cast<const StepRun*>(run)->step;
  return !step.row_task.run || step.logits <= 1;
}

void Plan::run_row_task(const void* plan, const void* run, device::Worker& worker) noexcept {
  const ops::StepArgs& step = *static_cast<const StepRun*>(run)->step;
  if (!step.row_task.run) return;
  const std::size_t width = static_cast<const Plan*>(plan)->logits_width_;
  worker.for_tiles(step.logits, [&](int row) {
    step.row_task.run(step.row_task.context, row, {reinterpret_cast<float*>(step.logits_out) + static_cast<std::size_t>(row) * width, width}, worker.scratch());
  });
}

void Plan::run_phase(const BoundPhase& phase, const StepRun& run, device::Worker& worker) const noexcept {
  const auto node = [&](int i) -> const BoundNode& { return nodes_[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])]; };
  std::array<Io, kMaxChain> io;
  for (int i = phase.begin; i < phase.end; ++i) io[static_cast<std::size_t>(i - phase.begin)] = operands_of(node(i), run);
  const auto context = [&](int i) {
    const BoundNode& n = node(i);
    return ops::ExecContext{*run.step, {io[static_cast<std::size_t>(i - phase.begin)].data(), static_cast<std::size_t>(n.n_operands)}, worker};
  };
  if (!phase.by_rows) return node(phase.begin).op->execute(context(phase.begin));
  const int rows = run.step->rows(node(phase.begin).op->by_rows()->rows()), tile = ops::RowOp::tile_rows(rows);
  worker.for_tiles((rows + tile - 1) / tile, [&](int t) {
    for (int i = phase.begin; i < phase.end; ++i) node(i).op->by_rows()->execute_rows(context(i), std::int64_t{t} * tile, std::min(tile, rows - t * tile));
  });
}

std::vector<Plan::OpRow> Plan::rows(const ops::StepArgs& step) const {
  const auto join = [](std::string& to, std::string_view more, const char* between) {
    if (!more.empty()) to += (to.empty() ? "" : between) + std::string(more);
  };
  std::vector<OpRow> out;
  for (const BoundLaunch& launch : bound_launches_) {
    OpRow row;
    double heaviest = -1;
    for (int i = launch.phases.front().begin; i < launch.phases.back().end; ++i) {
      const BoundNode& node = nodes_[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])];
      const ops::Work work = node.op->work(step);
      if (work.flops > heaviest) {  // its place in the model and its arithmetic stand for the launch
        heaviest = work.flops;
        row.scope = node.scope;
        row.work.arithmetic = work.arithmetic;
      }
      row.work.bytes += work.bytes;
      row.work.flops += work.flops;
      join(row.op, node.name, "+");
      join(row.shape, node.op->shape(step), ", ");
      join(row.tiling, node.op->tiling(), ", ");
    }
    out.push_back(std::move(row));
  }
  if (step.row_task.run) {
    const double values = static_cast<double>(step.logits) * static_cast<double>(logits_width_);
    out.push_back({.scope = "logits", .op = "row_task", .work = {.bytes = values * sizeof(float)}, .shape = std::to_string(step.logits) + "x" + std::to_string(logits_width_), .tiling = ""});
  }
  return out;
}

}  // namespace millrace::graph
