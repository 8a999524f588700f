#include "graph/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/check.h"
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

/// Every value that is not a weight gets its place. The arena packs intermediates by lifetime; inputs and the step's
/// results lie with their owners.
void Plan::place_values(const Graph& graph, const Bucket& most, std::vector<Operand>& at, std::size_t& arena_bytes) {
  std::vector<Lifetime> lifetimes;
  std::vector<int> lifetime_of(graph.values.size(), -1);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId id : graph.nodes[n].outputs) {
      lifetime_of[static_cast<std::size_t>(id.value)] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({value_bytes(graph.value(id).desc, most), static_cast<int>(n), static_cast<int>(n)});
    }
    for (const ValueId id : graph.nodes[n].inputs)
      if (const int l = lifetime_of[static_cast<std::size_t>(graph.storage(id).value)]; l >= 0) lifetimes[static_cast<std::size_t>(l)].last = static_cast<int>(n);
  }
  const MemoryPlan placed = plan_memory(lifetimes);
  arena_bytes = placed.peak_bytes;

  at.resize(graph.values.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const ValueId own = graph.storage({static_cast<std::int32_t>(v)});
    const Source source = graph.value(own).source;
    if (source == Source::token_ids) at[v].where = Where::token_ids;
    else if (source == Source::positions) at[v].where = Where::positions;
    else if (source == Source::output_rows) at[v].where = Where::output_rows;
    else if (own == graph.storage(graph.logits)) at[v].where = Where::logits_out;
    else if (own == graph.storage(graph.hidden)) at[v].where = Where::hidden_out;
    else if (source == Source::op) at[v].offset = placed.offsets[static_cast<std::size_t>(lifetime_of[static_cast<std::size_t>(own.value)])];
  }
}

Result<std::unique_ptr<Plan>> Plan::make(const Graph& graph, Bucket most, const PlanContext& context) {
  auto plan = std::make_unique<Plan>();
  std::vector<Operand> at;
  place_values(graph, most, at, plan->arena_bytes_);

  const ops::SetupContext setup{context.backend.kernels, context.workers, context.l2_bytes, most.tokens, most.outputs, most.logits, context.max_positions, context.kv_layers};
  plan->nodes_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    BoundNode bound;
    std::vector<ops::OpInput> inputs;
    for (const ValueId id : node.inputs) {
      const bool is_weight = graph.value(id).source == Source::weight;
      inputs.push_back({graph.value(id).desc, is_weight ? &context.weights[static_cast<std::size_t>(id.value)] : nullptr});
      if (!is_weight) bound.operands[bound.n_operands++] = at[static_cast<std::size_t>(id.value)];
    }
    for (const ValueId id : node.outputs) bound.operands[bound.n_operands++] = at[static_cast<std::size_t>(id.value)];
    MILLRACE_CHECK(bound.n_operands <= kMaxOperands, "too many operands in " + node.scope);
    auto op = node.op->setup(setup, inputs);
    if (!op) return std::move(op).error().in(node.scope);
    bound.op = *std::move(op);
    bound.scope = node.scope;
    bound.name = node.op->name();
    plan->scratch_bytes_ = std::max(plan->scratch_bytes_, bound.op->scratch_bytes());
    plan->nodes_.push_back(std::move(bound));
  }
  for (const BoundNode& node : plan->nodes_) plan->launches_.push_back({run_node, &node, node.name.data()});
  return plan;
}

void Plan::run_node(const void* node, const void* run, device::Worker& worker) noexcept {
  const auto& bound = *static_cast<const BoundNode*>(node);
  const auto& [step, arena] = *static_cast<const StepRun*>(run);
  std::array<std::byte*, kMaxOperands> io;
  for (int i = 0; i < bound.n_operands; ++i) {
    const Operand& operand = bound.operands[i];
    std::byte*& p = io[static_cast<std::size_t>(i)];
    switch (operand.where) {
      case Where::arena: p = arena + operand.offset; break;
      case Where::token_ids: p = reinterpret_cast<std::byte*>(const_cast<TokenId*>(step->token_ids)); break;
      case Where::positions: p = reinterpret_cast<std::byte*>(const_cast<std::int32_t*>(step->positions)); break;
      case Where::output_rows: p = reinterpret_cast<std::byte*>(const_cast<std::int32_t*>(step->output_rows)); break;
      case Where::logits_out: p = step->logits_out; break;
      case Where::hidden_out: p = step->hidden_out; break;
    }
  }
  bound.op->execute({*step, {io.data(), static_cast<std::size_t>(bound.n_operands)}, worker});
}

std::vector<Plan::OpRow> Plan::rows(const ops::StepArgs& step) const {
  std::vector<OpRow> out;
  for (const BoundNode& node : nodes_) out.push_back({node.scope, node.name, node.op->work(step), node.op->shape(step), node.op->tiling()});
  return out;
}

}  // namespace millrace::graph
