#include "cli/session.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cli/output.h"
#include "device/memory_info.h"
#include "device/topology.h"
#include "engine/kv_disk.h"
#include "kv/cache_groups.h"

namespace millrace::cli {

Result<std::int64_t> context_of(const Options& options, const model::ModelConfig& config, std::int64_t fallback) {
  if (options.context > config.max_positions)
    return error(Code::invalid_argument, "--context {} is more than the model's {} tokens", options.context, config.max_positions);
  return options.context > 0 ? options.context : std::min<std::int64_t>(fallback, config.max_positions);
}

int threads_of(const Options& options) { return options.threads > 0 ? static_cast<int>(options.threads) : device::default_threads(); }

Result<kernels::Isa> isa_of(const Options& options) { return kernels::choose_isa(options.isa); }

Result<model::LoadOptions> load_options(const Options& options, const Need& need) {
  model::LoadOptions load;
  MILLRACE_TRY(isa, isa_of(options));
  load.isa = kernels::to_string(isa);
  load.threads = threads_of(options);
  load.kv = model::find_kv_format(options.kv).value();  // one of the option's choices
  if (need.pool_tokens > (std::int64_t{1} << 30))
    return error(Code::exhausted, "{} tokens of KV cache are more than the {} that one pool holds", need.pool_tokens, std::int64_t{1} << 30);
  load.pool_tokens = static_cast<int>(need.pool_tokens);
  load.block_tokens = static_cast<int>(options.block_tokens);
  load.max_step_tokens = need.step_tokens;
  load.max_step_outputs = need.step_outputs;
  load.max_slices = need.max_running;
  load.row_scratch_bytes = sampling::scratch_bytes;
  return load;
}

Result<model::ModelConfig> config_of(const ModelBundle& bundle) {
  auto config = model::read_config(*bundle.source);
  if (config) config = model::validated(*std::move(config));
  if (!config) return std::move(config).error().in(fmt::format("loading '{}'", bundle.path));
  return config;
}

namespace {

Result<model::MemoryEstimate> estimate_of(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, const Need& need) {
  MILLRACE_TRY(load, load_options(options, need));
  auto memory = model::estimate_memory(*bundle.source, config, load);
  if (!memory) return std::move(memory).error().in(fmt::format("loading '{}'", bundle.path));
  return memory;
}

/// What `tokens` of the pool take beside their keys and values.
std::int64_t bookkeeping_bytes(std::int64_t tokens, const Options& options) {
  return tokens / options.block_tokens * kv::CacheGroups::bookkeeping_bytes(static_cast<int>(options.block_tokens));
}

/// What requests, plans' lists and tables take of the heap: 2 MiB were measured with SmolLM2 and prompts up to 2,800 tokens.
constexpr std::int64_t kHeapBytes = std::int64_t{4} << 20;

/// Of scratch, what the model does not know of.
std::int64_t engine_bytes(const Options& options) { return kHeapBytes + (options.kv_disk.empty() ? 0 : engine::kKvDiskBufferBytes); }

}  // namespace

Result<MemoryLedger> ledger_of(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, const Need& need, const device::MemoryInfo& machine) {
  MILLRACE_TRY(memory, estimate_of(bundle, config, options, need));
  const std::int64_t tokens = in_blocks(need.pool_tokens, options);
  return MemoryLedger{.machine = machine,
                      .program_bytes = device::resident_bytes(),
                      .weights_bytes = memory.weights_bytes,
                      .plans_bytes = memory.arena_bytes,
                      .scratch_bytes = memory.scratch_bytes + memory.results_bytes + engine_bytes(options),
                      .kv_bytes = memory.kv_bytes + bookkeeping_bytes(tokens, options),
                      .kv_tokens = tokens,
                      .kv_format = options.kv};
}

Result<Need> within_memory(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, Need need) {
  const device::MemoryInfo machine = device::machine_memory();  // once: a share of it must fit it
  if (!options.kv_memory.empty()) {
    MILLRACE_TRY(wish, parse_memory_amount(options.kv_memory));
    // Plans grow with the longest context: with the model's own there is room for those of any pool.
    need.pool_tokens = in_blocks(config.max_positions, options);
    MILLRACE_TRY(memory, estimate_of(bundle, config, options, need));
    const std::int64_t block_bytes = memory.kv_bytes / (need.pool_tokens / options.block_tokens) + bookkeeping_bytes(options.block_tokens, options);
    const std::int64_t left_bytes = machine.free_bytes - fixed_bytes(memory) - engine_bytes(options);
    MILLRACE_TRY(tokens, kv_tokens_of(wish, left_bytes, block_bytes, static_cast<int>(options.block_tokens)));
    need.pool_tokens = tokens;
  }
  MILLRACE_TRY(ledger, ledger_of(bundle, config, options, need, machine));
  MILLRACE_TRY_VOID(check_fits(ledger));
  if (!options.kv_disk.empty()) MILLRACE_TRY_VOID(engine::KvDisk::check_folder(options.kv_disk));
  if (need.prints_memory) log_text(ledger_text(ledger));
  return need;
}

Result<std::unique_ptr<model::Model>> load_weights(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, const Need& need,
                                                   const std::function<void(double)>& progress) {
  MILLRACE_TRY(load, load_options(options, need));
  ProgressBar bar("loading");
  load.progress = [&](double share) { progress ? progress(share) : bar.show(share); };
  auto model = model::load_model(*bundle.source, config, load);
  if (!model) return std::move(model).error().in(fmt::format("loading '{}'", bundle.path));
  return model;
}

engine::EngineOptions engine_options(const Need& need) {
  engine::EngineOptions options;
  options.step_tokens = need.step_tokens;
  options.max_running = need.max_running;
  options.max_queued = need.max_queued;
  options.max_queued_tokens = need.max_queued_tokens;
  options.prefix_sharing = need.prefix_sharing;
  options.schedule = need.schedule;
  options.max_step_us = need.max_step_us;
  options.calibrate = true;
  return options;
}

sched::Schedule schedule_of(std::string_view name) {
  return name == "serial" ? sched::Schedule::serial : name == "static" ? sched::Schedule::static_ : sched::Schedule::mixed;
}

Microseconds max_step_us(const Options& options) { return static_cast<Microseconds>(options.max_step_ms * 1000); }

Result<Session> start_engine(ModelBundle bundle, const model::ModelConfig& config, const Options& options, std::unique_ptr<model::Model> model, const Need& need) {
  engine::EngineOptions made = engine_options(need);
  if (!options.kv_disk.empty()) {
    MILLRACE_TRY(most_bytes, parse_byte_size(options.kv_disk_size));
    MILLRACE_TRY(disk, engine::KvDisk::open({options.kv_disk, most_bytes}, model->info()));
    made.kv_disk = std::move(disk);
  }
  Session session{std::move(bundle), config, nullptr};
  session.engine = std::make_unique<engine::Engine>(std::move(model), *session.bundle.tokenizer, made);
  return session;
}

Result<Session> start_session(ModelBundle bundle, const model::ModelConfig& config, const Options& options, const Need& need) {
  MILLRACE_TRY(fitted, within_memory(bundle, config, options, need));
  MILLRACE_TRY(model, load_weights(bundle, config, options, fitted));
  return start_engine(std::move(bundle), config, options, std::move(model), fitted);
}

std::int64_t pool_tokens(const Session& session) {
  const model::CacheGroupInfo& group = session.engine->info().cache_groups[0];
  return std::int64_t{group.n_blocks} * group.block_tokens;
}

sampling::Params sampling_params(const Options& options) {
  sampling::Params params;
  params.temperature = static_cast<float>(options.temperature);
  params.top_p = static_cast<float>(options.top_p);
  params.top_k = static_cast<int>(options.top_k);
  params.min_p = static_cast<float>(options.min_p);
  params.typical_p = static_cast<float>(options.typical_p);
  params.repetition_penalty = static_cast<float>(options.repetition_penalty);
  params.presence_penalty = static_cast<float>(options.presence_penalty);
  params.frequency_penalty = static_cast<float>(options.frequency_penalty);
  params.seed = options.seed;
  return params;
}

}  // namespace millrace::cli
