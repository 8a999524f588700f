#include "cli/serve_model.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "text/chat_template.h"

namespace millrace::cli {
namespace {

/// What the folder's generation_config.json wishes; a file that does not parse was refused with the tokenizer.
void read_generation_defaults(const io::WeightSource& source, server::ServedModel& served) {
  const std::string* file = source.text_file("generation_config.json");
  if (!file) return;
  const auto config = nlohmann::json::parse(*file, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return;
  const auto number = [&](const char* key, auto& slot, double least, double most) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_number()) return;
    const auto value = found->get<double>();
    if (value >= least && value <= most) slot = static_cast<typename std::remove_reference_t<decltype(slot)>::value_type>(value);
  };
  number("temperature", served.default_temperature, 0, 100);
  number("top_p", served.default_top_p, 1e-9, 1);
  number("min_p", served.default_min_p, 0, 1);
  number("top_k", served.default_top_k, 0, 1 << 30);
  number("repetition_penalty", served.default_repetition_penalty, 1e-3, 1e3);
  // do_sample false says that the model's authors want greedy answers.
  if (const auto found = config.find("do_sample"); found != config.end() && *found == false) served.default_temperature = 0.0f;
}

text::Json about(const LoadedModel& loaded, const Options& options) {
  const model::RunnerInfo& info = loaded.session.engine->info();
  return {{"architecture", loaded.session.config.architecture},
          {"vocab_size", info.vocab_size},
          {"embedding_dim", info.dim},
          {"context_tokens", loaded.served.context_tokens},
          {"kv_cache", {{"format", std::string(info.kv_format)}, {"tokens", pool_tokens(loaded.session)}, {"block_tokens", options.block_tokens}}},
          {"schedule", options.schedule},
          {"chat_template", loaded.chat_template.has_value()}};
}

}  // namespace

std::vector<std::string> served_names(const Options& options) {
  if (!options.served_model_name.empty()) return options.served_model_name;
  std::filesystem::path path(options.model);
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  return {path.extension() == ".gguf" ? path.stem().string() : path.filename().string()};
}

Result<Need> serve_need(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options) {
  MILLRACE_TRY(context, context_of(options, config, config.max_positions));
  const auto running = static_cast<int>(options.max_running);
  Need need{.pool_tokens = in_blocks(context, options), .step_tokens = static_cast<int>(options.chunk), .step_outputs = running, .max_running = running,
            .max_queued = static_cast<int>(options.max_queued_requests), .max_queued_tokens = options.max_queued_tokens,
            .schedule = schedule_of(options.schedule), .max_step_us = max_step_us(options), .prints_memory = !options.log_json};
  return within_memory(bundle, config, options, need);
}

Result<std::unique_ptr<LoadedModel>> load_served_model(ModelBundle bundle, const model::ModelConfig& config, const Options& options, const Need& need,
                                                       const std::function<void(double)>& progress) {
  MILLRACE_TRY(context, context_of(options, config, config.max_positions));
  MILLRACE_TRY(model, load_weights(bundle, config, options, need, progress));
  MILLRACE_TRY(session, start_engine(std::move(bundle), config, options, std::move(model), need));
  auto loaded = std::make_unique<LoadedModel>(LoadedModel{std::move(session), std::nullopt, {}});
  const ModelBundle& files = loaded->session.bundle;

  server::ServedModel& served = loaded->served;
  served.names = served_names(options);
  served.engine = loaded->session.engine.get();
  served.tokenizer = files.tokenizer.get();
  if (const auto source = template_text(*files.source); !source) served.no_template_because = source.error().message;
  else if (auto parsed = text::ChatTemplate::parse(*source); !parsed) served.no_template_because = parsed.error().message;
  else loaded->chat_template = std::move(*parsed);
  if (loaded->chat_template) served.chat_template = &*loaded->chat_template;
  else log_warn("no chat template", {{"because", served.no_template_because}});
  served.context_tokens = std::min(context, pool_tokens(loaded->session));
  served.embedding_dim = served.engine->info().dim;
  served.created_s = static_cast<std::int64_t>(std::time(nullptr));
  served.fingerprint = fmt::format("fp_{:012x}", served.engine->info().fingerprint & 0xffffffffffff);
  read_generation_defaults(*files.source, served);
  served.about = about(*loaded, options);
  return loaded;
}

}  // namespace millrace::cli
