#include "cli/model_bundle.h"

#include <nlohmann/json.hpp>

#include <filesystem>

#include "cli/known_models.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

/// chat_template of tokenizer_config.json: a string, or a list of named ones of which "default" counts.
Result<std::string> template_of_config(const std::string& tokenizer_config) {
  const auto config = text::Json::parse(tokenizer_config, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return error(Code::corrupt_data, "tokenizer_config.json is no JSON object");
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return error(Code::not_found, "tokenizer_config.json has no chat_template");
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const auto& one : *found)
      if (one.is_object() && one.contains("name") && one["name"] == "default" && one.contains("template") && one["template"].is_string())
        return one["template"].get<std::string>();
  return error(Code::corrupt_data, "tokenizer_config.json: chat_template is neither a string nor a list with a default");
}

}  // namespace

Result<std::string> resolve_model(const std::string& model) {
  std::error_code ignored;
  if (model.empty()) return error(Code::invalid_argument, "the model's path is empty");
  const KnownModel* known = find_known_model(model);
  if (!known || fs::symlink_status(model, ignored).type() != fs::file_type::not_found) return model;
  const fs::path path = path_of(*known);
  if (!fs::exists(path, ignored)) return error(Code::not_found, "model '{}' is not on this machine: millrace fetch {} gets it", model, model);
  return path.string();
}

Result<std::unique_ptr<io::WeightSource>> open_source(const std::string& model) {
  MILLRACE_TRY(path, resolve_model(model));
  return io::open_model(path);
}

Result<std::unique_ptr<text::Tokenizer>> open_tokenizer(const io::WeightSource& source) {
  if (source.kind() == io::SourceKind::gguf) {
    auto made = text::make_tokenizer(source.metadata());
    return made ? std::move(made) : std::move(made).error().in(fmt::format("loading '{}'", source.path()));
  }
  const std::string* json = source.text_file("tokenizer.json");
  if (!json) return error(Code::not_found, "loading '{}': the folder has no tokenizer.json", source.path());
  auto made = text::make_tokenizer(*json, source.text_file("tokenizer_config.json"), source.text_file("generation_config.json"));
  return made ? std::move(made) : std::move(made).error().in(fmt::format("loading '{}'", source.path()));
}

Result<ModelBundle> open_bundle(const std::string& model) {
  ModelBundle bundle;
  MILLRACE_TRY(source, open_source(model));
  bundle.path = source->path();
  bundle.source = std::move(source);
  MILLRACE_TRY(tokenizer, open_tokenizer(*bundle.source));
  bundle.tokenizer = std::move(tokenizer);
  return bundle;
}

Result<std::string> template_text(const io::WeightSource& source) {
  if (source.kind() == io::SourceKind::gguf) {
    MILLRACE_TRY(found, source.metadata().get_string("tokenizer.chat_template"));
    return std::string(found);
  }
  if (const std::string* file = source.text_file("chat_template.jinja")) return *file;
  if (const std::string* config = source.text_file("tokenizer_config.json")) return template_of_config(*config);
  return error(Code::not_found, "'{}' has no chat_template.jinja and no tokenizer_config.json", source.path());
}

}  // namespace millrace::cli
