#include "model/model.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "base/check.h"
#include "device/topology.h"
#include "graph/plan_cache.h"
#include "model/fingerprint.h"
#include "model/step_builder.h"
#include "model/weight_store.h"
#include "ops/backend.h"

namespace millrace::model {
namespace {

/// Graph and weights as declared: all that an estimate needs.
struct Declared {
  std::unique_ptr<graph::Graph> graph;
  WeightStore weights;
};

Result<Declared> declare(const io::WeightSource& source, const ModelConfig& config, int panel_rows) {
  const Architecture* arch = find_architecture(config.architecture);
  if (!arch) return error(Code::unsupported, "architecture '{}' is not known, this build has {}", config.architecture, architecture_names());
  if (source.tensor_names().empty()) return error(Code::not_found, "'{}' has no weights", source.path());
  graph::Builder g;
  MILLRACE_TRY(weights, WeightStore::declare(source, config, *arch, panel_rows, g));
  const BuiltModel built = arch->build(g, config, weights.values());
  MILLRACE_TRY(graph, std::move(g).finish(built.logits, built.hidden));
  return Declared{std::move(graph), std::move(weights)};
}

int pool_blocks(const LoadOptions& o) { return (o.pool_tokens + o.block_tokens - 1) / o.block_tokens; }

graph::Bucket largest_bucket(const LoadOptions& o) { return {o.max_step_tokens, o.max_step_outputs, o.max_step_outputs}; }

graph::PlanContext plan_context(const Declared& declared, const ModelConfig& config, const LoadOptions& o, const ops::Backend& backend,
                                std::span<const ops::KvLayer> kv) {
  const int positions = std::min(config.max_positions, pool_blocks(o) * o.block_tokens);
  return {backend, o.threads, device::topology().l2_bytes, positions, kv, declared.weights.packed()};
}

/// Of one worker. Launches use it one after the other.
std::size_t scratch_bytes(const graph::Plan& largest, const ModelConfig& config, const LoadOptions& o) {
  const std::size_t row_bytes = o.row_scratch_bytes ? o.row_scratch_bytes(static_cast<std::size_t>(config.vocab_size)) : 0;
  return std::max(largest.scratch_bytes(), row_bytes);
}

Result<MemoryEstimate> estimate(const Declared& declared, const ModelConfig& config, const LoadOptions& o, const graph::Plan& largest) {
  MemoryEstimate out;
  out.weights_bytes = declared.weights.bytes();
  out.token_weights_bytes = declared.weights.bytes_per_token();
  out.kv_bytes_per_token = kv_bytes_per_token(config, o.kv);
  out.kv_bytes = KvStore::block_bytes(config, o.kv, o.block_tokens) * pool_blocks(o);
  out.arena_bytes = static_cast<std::int64_t>(largest.arena_bytes());
  out.scratch_bytes = static_cast<std::int64_t>(scratch_bytes(largest, config, o)) * o.threads;
  out.results_bytes = std::int64_t{2} * o.max_step_outputs * (config.vocab_size + config.dim) * 4;
  return out;
}

class CpuModel final : public Model {
 public:
  CpuModel(Declared declared, const ModelConfig& config, const LoadOptions& options, ops::Backend backend, std::uint64_t fingerprint)
      : declared_(std::move(declared)), config_(config), options_(options), backend_(std::move(backend)), device_(device::make_cpu_device()) {
    // Shared blocks stand in several tables: each may be as long as the pool.
    const int longest = std::min(config.max_positions / options.block_tokens + 1, pool_blocks(options));
    for (Slot& slot : slots_) {
      slot.builder.emplace(config.n_heads / config.n_kv_heads);
      slot.builder->reserve(options.max_step_tokens, options.max_step_outputs, options.max_slices,
                            static_cast<std::size_t>(options.max_slices) * static_cast<std::size_t>(longest));
    }
    info_ = {config.vocab_size, config.dim, config.max_positions, options.max_step_tokens, options.max_step_outputs, options.max_slices,
             {{.block_tokens = options.block_tokens, .window = 0, .n_blocks = pool_blocks(options),
               .block_bytes = KvStore::block_bytes(config, options.kv, options.block_tokens)}},
             to_string(options.kv), fingerprint};
  }

  Result<void> load() {
    MILLRACE_TRY_VOID(declared_.weights.allocate(*device_));
    MILLRACE_TRY(kv, KvStore::make(config_, options_.kv, pool_blocks(options_), options_.block_tokens, *device_));
    kv_ = std::move(kv);
    plans_.emplace(*declared_.graph, plan_context(declared_, config_, options_, backend_, kv_->layers()), largest_bucket(options_));
    MILLRACE_TRY(largest, plans_->find(options_.max_step_tokens, options_.max_step_outputs, options_.max_step_outputs));
    MILLRACE_TRY(memory, estimate(declared_, config_, options_, *largest));
    memory_ = memory;
    MILLRACE_TRY(arena, device_->allocate(largest->arena_bytes()));
    arena_ = std::move(arena);
    for (Slot& slot : slots_) {
      MILLRACE_TRY(logits, device_->allocate(static_cast<std::size_t>(options_.max_step_outputs) * static_cast<std::size_t>(config_.vocab_size) * 4));
      MILLRACE_TRY(hidden, device_->allocate(static_cast<std::size_t>(options_.max_step_outputs) * static_cast<std::size_t>(config_.dim) * 4));
      slot.logits = std::move(logits);
      slot.hidden = std::move(hidden);
    }
    stream_ = device_->make_stream({.workers = options_.threads, .scratch_bytes = scratch_bytes(*largest, config_, options_),
                                    .cpus = options_.pin ? device::topology().core_cpus : std::vector<int>{}, .caller_works = true});
    declared_.weights.load(stream_->group(), options_.progress);
    return {};
  }

  const RunnerInfo& info() const override { return info_; }
  const MemoryEstimate& memory() const override { return memory_; }

  Ticket submit(std::span<const StepSlice> slices, RowTask task) override {
    MILLRACE_CHECK(submitted_ - waited_ < 2, "a third step submitted while two are under way");
    Slot& slot = slots_[static_cast<std::size_t>(submitted_ % 2)];
    const ops::StepArgs& step = slot.builder->build(slices);
    MILLRACE_CHECK(step.tokens <= options_.max_step_tokens && step.outputs <= options_.max_step_outputs,
                   "a step of " + std::to_string(step.tokens) + " tokens and " + std::to_string(step.outputs) + " outputs");
    slot.builder->set_results(slot.logits.data(), slot.hidden.data());
    slot.builder->set_row_task(task);
    auto plan = plans_->find(step.tokens, step.outputs, step.logits);
    MILLRACE_CHECK(plan.ok(), plan.ok() ? "" : plan.error().message);  // the largest one was made at load
    slot.plan = *plan;
    slot.run = {&step, arena_.data()};
    if (submitted_ == waited_) start(slot);
    return {submitted_++};
  }

  Result<StepOutputs> wait(Ticket ticket) override {
    MILLRACE_CHECK(ticket.step == waited_ && waited_ < submitted_, "wait for step " + std::to_string(ticket.step) + " after " + std::to_string(waited_));
    stream_->synchronize();
    Slot& slot = slots_[static_cast<std::size_t>(waited_ % 2)];
    if (++waited_ < submitted_) start(slots_[static_cast<std::size_t>(waited_ % 2)]);
    const ops::StepArgs& step = slot.builder->step();
    const auto vocab = static_cast<std::size_t>(config_.vocab_size), dim = static_cast<std::size_t>(config_.dim);
    const auto logits = static_cast<std::size_t>(step.logits), outputs = static_cast<std::size_t>(step.outputs);
    return StepOutputs{{reinterpret_cast<const float*>(slot.logits.data()), logits * vocab},
                       {reinterpret_cast<const float*>(slot.hidden.data()) + logits * dim, (outputs - logits) * dim}};
  }

  void copy_blocks(int cache_group, std::span<const BlockId> from, std::span<const BlockId> to) override {
    MILLRACE_CHECK(cache_group == 0 && submitted_ == waited_, "copy_blocks beside a running step or in group " + std::to_string(cache_group));
    kv_->copy_blocks(from, to);
  }

  void read_blocks(int cache_group, std::span<const BlockId> blocks, std::span<std::byte> to) const override {
    const auto bytes = block_bytes(cache_group, blocks.size(), to.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) kv_->read_block(blocks[i], to.subspan(i * bytes, bytes));
  }

  void write_blocks(int cache_group, std::span<const BlockId> blocks, std::span<const std::byte> from) override {
    MILLRACE_CHECK(submitted_ == waited_, "write_blocks beside a running step");
    const auto bytes = block_bytes(cache_group, blocks.size(), from.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) kv_->write_block(blocks[i], from.subspan(i * bytes, bytes));
  }

  void profile(bool on) override {
    profile_us_.assign(on ? declared_.graph->nodes.size() + 1 : 0, 0.0);  // a launch has a node or more; the row task
    stream_->group().profile(profile_us_);
  }
  std::vector<OpProfile> profiled() const override {
    std::vector<OpProfile> out;
    const Slot& slot = slots_[static_cast<std::size_t>((waited_ + 1) % 2)];
    if (!slot.plan || profile_us_.empty()) return out;
    const auto rows = slot.plan->rows(slot.builder->step());
    for (std::size_t i = 0; i < rows.size(); ++i) out.push_back({rows[i].scope, rows[i].op, rows[i].shape, rows[i].tiling, rows[i].work, profile_us_[i]});
    return out;
  }
  std::string graph_dump() const override { return graph::dump(*declared_.graph); }
  std::int64_t submissions() const override { return stream_->submissions(); }
  std::int64_t syncs() const override { return stream_->syncs(); }
  std::int64_t plan_misses() const override { return plans_->misses(); }

 private:
  /// One of two steps under way: the one that runs and the one that is prepared.
  struct Slot {
    std::optional<StepBuilder> builder;
    const graph::Plan* plan = nullptr;
    graph::StepRun run;
    device::Buffer logits, hidden;
  };
  /// Of one block; `n` of them are `total` bytes.
  std::size_t block_bytes(int cache_group, std::size_t n, std::size_t total) const {
    MILLRACE_CHECK(cache_group == 0, "no cache group " + std::to_string(cache_group));
    const auto bytes = static_cast<std::size_t>(info_.cache_groups[0].block_bytes);
    MILLRACE_CHECK(n * bytes == total, std::to_string(n) + " blocks in " + std::to_string(total) + " bytes");
    return bytes;
  }
  void start(Slot& slot) { stream_->submit(slot.plan->launches(), &slot.run); }

  Declared declared_;
  ModelConfig config_;
  LoadOptions options_;
  ops::Backend backend_;
  std::unique_ptr<device::Device> device_;
  RunnerInfo info_;
  MemoryEstimate memory_;
  std::optional<KvStore> kv_;
  std::optional<graph::PlanCache> plans_;
  device::Buffer arena_;
  std::array<Slot, 2> slots_;
  std::vector<double> profile_us_;
  std::unique_ptr<device::Stream> stream_;  // last: its workers end before what they use
  std::int64_t submitted_ = 0, waited_ = 0;
};

Result<void> check_options(const LoadOptions& o) {
  if (o.threads < 1 || o.threads > 1024) return error(Code::invalid_argument, "threads is {}, expected 1 to 1024", o.threads);
  if (o.block_tokens < 8 || o.block_tokens > 256 || (o.block_tokens & (o.block_tokens - 1)) != 0)
    return error(Code::invalid_argument, "block size is {} tokens, expected a power of two from 8 to 256", o.block_tokens);
  if (o.pool_tokens < 1) return error(Code::invalid_argument, "the KV cache has room for {} tokens", o.pool_tokens);
  if (o.max_step_tokens < 1 || o.max_step_outputs < 1 || o.max_slices < 1) return error(Code::invalid_argument, "a step of no tokens, outputs or slices");
  return {};
}

/// What is known of a model before it has weights, memory or threads; plans bind to it. They refer to the backend.
struct DryModel {
  ops::Backend backend;
  Declared declared;
  std::vector<ops::KvLayer> kv;

  static Result<DryModel> make(const io::WeightSource& source, const ModelConfig& config, const LoadOptions& options) {
    MILLRACE_TRY_VOID(check_options(options));
    MILLRACE_TRY(backend, ops::make_backend(options.isa));
    MILLRACE_TRY(declared, declare(source, config, backend.panel_rows()));
    const ops::KvLayer layer{.block_tokens = options.block_tokens, .dtype = dtype_of(options.kv)};
    return DryModel{std::move(backend), std::move(declared), std::vector(static_cast<std::size_t>(config.n_layers), layer)};
  }
  Result<std::unique_ptr<graph::Plan>> plan(const ModelConfig& config, const LoadOptions& options, graph::Bucket bucket) const {
    return graph::Plan::make(*declared.graph, bucket, plan_context(declared, config, options, backend, kv));
  }
};

}  // namespace

Result<MemoryEstimate> estimate_memory(const io::WeightSource& source, const ModelConfig& config, const LoadOptions& options) {
  MILLRACE_TRY(dry, DryModel::make(source, config, options));
  MILLRACE_TRY(plan, dry.plan(config, options, largest_bucket(options)));
  return estimate(dry.declared, config, options, *plan);
}

Result<std::vector<TilingRow>> list_tilings(const io::WeightSource& source, const ModelConfig& config, const LoadOptions& options) {
  MILLRACE_TRY(dry, DryModel::make(source, config, options));
  std::vector<TilingRow> out;
  for (const int tokens : std::set{1, options.max_step_tokens}) {
    MILLRACE_TRY(plan, dry.plan(config, options, {tokens, 1, 1}));
    ops::StepArgs step;
    step.tokens = tokens, step.outputs = step.logits = 1;
    for (const graph::Plan::OpRow& row : plan->rows(step)) {
      if (row.tiling.empty()) continue;
      const auto same = [&](const TilingRow& r) { return r.tokens == tokens && r.op == row.op && r.shape == row.shape && r.tiling == row.tiling; };
      if (const auto known = std::ranges::find_if(out, same); known != out.end()) ++known->launches;
      else out.push_back({tokens, row.op, row.shape, row.tiling, 1});
    }
  }
  return out;
}

Result<std::unique_ptr<Model>> load_model(const io::WeightSource& source, const ModelConfig& config, const LoadOptions& options) {
  MILLRACE_TRY(dry, DryModel::make(source, config, options));
  const std::uint64_t fingerprint = fingerprint_of(source, config, dry.backend.isa, options.kv);
  auto model = std::make_unique<CpuModel>(std::move(dry.declared), config, options, std::move(dry.backend), fingerprint);
  MILLRACE_TRY_VOID(model->load());
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace millrace::model
