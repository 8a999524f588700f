#include "cli/session.h"

#include <algorithm>
#include <utility>

#include "cli/output.h"
#include "device/topology.h"

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

Result<std::unique_ptr<model::Model>> load_weights(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options, const Need& need) {
  MILLRACE_TRY(load, load_options(options, need));
  ProgressBar bar("loading");
  load.progress = [&bar](double share) { bar.show(share); };
  auto model = model::load_model(*bundle.source, config, load);
  if (!model) return std::move(model).error().in(fmt::format("loading '{}'", bundle.path));
  return model;
}

engine::EngineOptions engine_options(const Need& need) {
  engine::EngineOptions options;
  options.step_tokens = need.step_tokens;
  options.max_running = need.max_running;
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

Session start_engine(ModelBundle bundle, const model::ModelConfig& config, std::unique_ptr<model::Model> model, const Need& need) {
  Session session{std::move(bundle), config, nullptr};
  session.engine = std::make_unique<engine::Engine>(std::move(model), *session.bundle.tokenizer, engine_options(need));
  return session;
}

Result<Session> start_session(ModelBundle bundle, const model::ModelConfig& config, const Options& options, const Need& need) {
  MILLRACE_TRY(model, load_weights(bundle, config, options, need));
  return start_engine(std::move(bundle), config, std::move(model), need);
}

sampling::Params sampling_params(const Options& options) {
  sampling::Params params;
  params.temperature = static_cast<float>(options.temperature);
  params.top_p = static_cast<float>(options.top_p);
  params.top_k = static_cast<int>(options.top_k);
  params.min_p = static_cast<float>(options.min_p);
  params.repetition_penalty = static_cast<float>(options.repetition_penalty);
  params.presence_penalty = static_cast<float>(options.presence_penalty);
  params.frequency_penalty = static_cast<float>(options.frequency_penalty);
  params.seed = options.seed;
  return params;
}

}  // namespace millrace::cli
