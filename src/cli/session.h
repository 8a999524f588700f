#pragma once

// A model that runs: bundle, weights, KV pool and engine, made from the options of one call. Everything that generates
// goes through here.

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "cli/memory_ledger.h"
#include "cli/model_bundle.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "kernels/registry.h"
#include "model/config.h"
#include "model/model.h"

namespace millrace::cli {

/// What a command asks of the engine beyond its options.
struct Need {
  std::int64_t pool_tokens = 0;  // KV cache: blocks_for() of each sequence that runs at once, summed
  int step_tokens = 512;
  int step_outputs = 64;  // rows that come back from one step
  int max_running = 64;
  int max_queued = 1024;
  std::int64_t max_queued_tokens = 1 << 20;
  bool prefix_sharing = true;
  sched::Schedule schedule = sched::Schedule::mixed;
  Microseconds max_step_us = 0;  // 0: no bound
  bool prints_memory = false;  // the ledger, on standard error
};

struct Session {
  ModelBundle bundle;
  model::ModelConfig config;
  std::unique_ptr<engine::Engine> engine;  // uses bundle.tokenizer: goes first
};

/// Tokens of whole blocks (--block-tokens) that hold `tokens`.
constexpr std::int64_t in_blocks(std::int64_t tokens, std::int64_t block_tokens) { return (tokens + block_tokens - 1) / block_tokens * block_tokens; }
inline std::int64_t in_blocks(std::int64_t tokens, const Options& options) { return in_blocks(tokens, options.block_tokens); }
static_assert(in_blocks(1, std::int64_t{32}) == 32 && in_blocks(32, std::int64_t{32}) == 32);

/// The longest prompt plus answer: --context, else `fallback`, never beyond the model's. Errors: invalid_argument.
Result<std::int64_t> context_of(const Options& options, const model::ModelConfig& config, std::int64_t fallback);

/// --threads, or what suits the machine.
int threads_of(const Options& options);

/// The level that --isa names, or the best. Errors: unsupported.
Result<kernels::Isa> isa_of(const Options& options);

Result<model::LoadOptions> load_options(const Options& options, const Need& need);

/// read_config and validated, with the path in front of what is wrong.
Result<model::ModelConfig> config_of(const ModelBundle& bundle);

/// What a run takes of `machine`. Errors: as model::estimate_memory.
Result<MemoryLedger> ledger_of(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, const Need& need, const device::MemoryInfo& machine);

/// `need` with the pool that --kv-memory gives, if it is given; prints the ledger if the need says so. Loads nothing.
/// Errors: exhausted when it does not fit, with the numbers.
Result<Need> within_memory(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, Need need);

/// With a progress bar on a terminal, or telling `progress` the share that is done, any thread, one at a time.
Result<std::unique_ptr<model::Model>> load_weights(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, const Need& need,
                                                   const std::function<void(double)>& progress = nullptr);

/// Errors: those of engine::KvDisk::open.
Result<Session> start_engine(ModelBundle bundle, const model::ModelConfig& config, const Options& options, std::unique_ptr<model::Model> model, const Need& need);

/// All three.
Result<Session> start_session(ModelBundle bundle, const model::ModelConfig& config, const Options& options, const Need& need);

/// What `need` asks of an engine.
engine::EngineOptions engine_options(const Need& need);

/// --schedule and --max-step-ms.
sched::Schedule schedule_of(std::string_view name);
Microseconds max_step_us(const Options& options);

/// Tokens that the KV pool holds, of all sequences together.
std::int64_t pool_tokens(const Session& session);

sampling::Params sampling_params(const Options& options);

}  // namespace millrace::cli
