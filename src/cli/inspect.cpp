// inspect: what is in a model file, and what a run of it will take, without loading; this machine; this build. What this
// build cannot do with the file is listed, and is no error: the file is fine.

#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/inspect_machine.h"
#include "cli/output.h"
#include "cli/session.h"
#include "device/memory_info.h"
#include "text/prompt.h"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

/// "[512, 896]" of a tensor, its format and size; and the sums per format.
void add_tensors(Json& report, const io::WeightSource& source) {
  struct Sum { std::int64_t tensors = 0, bytes = 0; };
  std::map<std::string_view, Sum> formats;
  std::int64_t parameters = 0;
  Json tensors = Json::array();
  for (const std::string_view name : source.tensor_names()) {
    const auto& desc = source.find(name)->desc;
    const auto bytes = static_cast<std::int64_t>(desc.bytes());
    Json shape = Json::array();
    for (int i = 0; i < desc.shape.rank(); ++i) shape.push_back(desc.shape[i]);
    tensors.push_back({{"name", name}, {"format", tensor::to_string(desc.dtype)}, {"shape", shape}, {"bytes", bytes}});
    Sum& sum = formats[tensor::to_string(desc.dtype)];
    ++sum.tensors, sum.bytes += bytes;
    parameters += desc.shape.elements();
  }
  report["parameters"] = parameters;
  report["formats"] = Json::array();
  for (const auto& [format, sum] : formats) report["formats"].push_back({{"format", format}, {"tensors", sum.tensors}, {"bytes", sum.bytes}});
  report["tensors"] = std::move(tensors);
}

Json sizes_of(const model::ModelConfig& config) {
  return {{"layers", config.n_layers}, {"dim", config.dim}, {"ffn_dim", config.ffn_dim}, {"heads", config.n_heads},
          {"kv_heads", config.n_kv_heads}, {"head_dim", config.head_dim}, {"vocab_size", config.vocab_size},
          {"context", config.max_positions}, {"tied_head", config.tied_head}};
}

/// Loading for one sequence of `context` tokens, with the options of this call.
Result<model::LoadOptions> one_sequence(const Options& options, int context) {
  return load_options(options, {.pool_tokens = in_blocks(context, options), .step_outputs = 1, .max_running = 1});
}

/// The memory of a run of one sequence with the options of this call (A13). What the program, the vocabulary and the
/// file's header take is in memory already when this is called, as it will be then: process_bytes.
Result<Json> memory_of(const io::WeightSource& source, const model::ModelConfig& config, const Options& options) {
  MILLRACE_TRY(context, context_of(options, config, kContextCap));
  MILLRACE_TRY(load, one_sequence(options, context));
  MILLRACE_TRY(memory, model::estimate_memory(source, config, load));
  const std::int64_t process_bytes = device::resident_bytes(), free_bytes = device::machine_memory().free_bytes;
  const std::int64_t rest = free_bytes - fixed_bytes(memory);
  return Json{{"weights_bytes", memory.weights_bytes}, {"token_weights_bytes", memory.token_weights_bytes}, {"kv_bytes_per_token", memory.kv_bytes_per_token},
              {"context_tokens", context}, {"kv_bytes", memory.kv_bytes}, {"arena_bytes", memory.arena_bytes}, {"scratch_bytes", memory.scratch_bytes},
              {"results_bytes", memory.results_bytes}, {"process_bytes", process_bytes}, {"total_bytes", memory.total() + process_bytes},
              {"free_bytes", free_bytes}, {"tokens_that_fit", std::max<std::int64_t>(rest, 0) / std::max<std::int64_t>(memory.kv_bytes_per_token, 1)}};
}

/// The work split of each launch, for a step of one token and for the largest.
Result<Json> tilings_of(const io::WeightSource& source, const model::ModelConfig& config, const Options& options) {
  MILLRACE_TRY(context, context_of(options, config, kContextCap));
  MILLRACE_TRY(load, one_sequence(options, context));
  MILLRACE_TRY(rows, model::list_tilings(source, config, load));
  Json out = Json::array();
  for (const model::TilingRow& row : rows)
    out.push_back({{"tokens", row.tokens}, {"launches", row.launches}, {"op", row.op}, {"shape", row.shape}, {"tiling", row.tiling}});
  return out;
}

Result<Json> report_of(const io::WeightSource& source, const Options& options) {
  Json unsupported = Json::array();
  const auto refuse = [&](const Error& why) { unsupported.push_back(why.message); };
  Json report = {{"file", source.path()}, {"kind", source.kind() == io::SourceKind::gguf ? "gguf" : "folder"}};
  const auto named = source.metadata().get_string("general.architecture");
  report["architecture"] = named ? Json(std::string(*named)) : Json(nullptr);

  const auto tokenizer = open_tokenizer(source);
  auto config = model::read_config(source);
  if (config) config = model::validated(*std::move(config));
  if (config) {
    report["architecture"] = config->architecture;
    report["model"] = sizes_of(*config);
    auto memory = memory_of(source, *config, options);
    report["memory"] = memory ? *memory : Json(nullptr);
    if (!memory) refuse(memory.error());
  } else {
    refuse(config.error());
  }
  if (tokenizer) {
    const text::Tokenizer& vocabulary = **tokenizer;
    report["tokenizer"] = {{"vocab_size", vocabulary.vocab_size()}};
    report["tokenizer"].update(text::special_token_variables(vocabulary));
  } else {
    report["tokenizer"] = nullptr;
    refuse(tokenizer.error());
  }
  const auto text = template_text(source);
  report["chat_template"] = text.ok();
  if (text)
    if (const auto parsed = text::ChatTemplate::parse(*text); !parsed) refuse(Error(parsed.error()).in("chat template"));
  report["unsupported"] = std::move(unsupported);
  add_tensors(report, source);
  if (options.kernels && report["unsupported"].empty()) {
    MILLRACE_TRY(tilings, tilings_of(source, *config, options));
    report["tilings"] = std::move(tilings);
  }
  return report;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The same report for people: "key  value" lines, groups with a heading.
std::string to_text(const Json& report) {
  std::string out;
  for (const auto& [key, value] : report.items()) {
    if (value.is_object()) {
      out += fmt::format("{}\n", key);
      for (const auto& [name, one] : value.items()) out += fmt::format("  {:<20} {}\n", name, text_of(one));
    } else if (key == "tilings") {
      out += fmt::format("{:<22} of each launch, by tokens of the step\n", key);
      for (const Json& one : value)
        out += fmt::format("  {:>4} tokens {:>4} x  {:<22} {}: {}\n", text_of(one["tokens"]), text_of(one["launches"]), text_of(one["op"]), text_of(one["shape"]), text_of(one["tiling"]));
    } else if (key == "tensors" || key == "formats") {
      out += fmt::format("{:<22} {}\n", key, value.size());
      for (const Json& one : value) {
        for (const auto& [name, field] : one.items()) {
          const bool counted = name == "tensors" || name == "bytes";
          out += counted ? fmt::format("  {} {}", text_of(field), name) : fmt::format("  {}", text_of(field));
        }
        out += "\n";
      }
    } else if (value.is_array()) {
      if (value.empty()) out += fmt::format("{:<22} nothing\n", key);
      for (const Json& one : value) out += fmt::format("{:<22} {}\n", key, text_of(one));
    } else {
      out += fmt::format("{:<22} {}\n", key, text_of(value));
    }
  }
  return out;
}

}  // namespace

Result<int> run_inspect(const Options& options) {
  if (options.model.empty() && !options.machine && !options.kernels)
    return error(Code::invalid_argument, "nothing to inspect: a model, --machine or --kernels");
  Json report = Json::object();
  if (!options.model.empty()) {
    MILLRACE_TRY(source, open_source(options.model));
    MILLRACE_TRY(of_model, report_of(*source, options));
    report = std::move(of_model);
  }
  if (options.machine) report["machine"] = machine_report();
  if (options.kernels) {
    MILLRACE_TRY(isa, isa_of(options));
    report["kernels"] = kernels_report(isa);
  }
  MILLRACE_TRY_VOID(write_report(options.json, report, to_text(report)));
  return 0;
}

}  // namespace millrace::cli
