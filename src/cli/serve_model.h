#pragma once

// The model of `serve`: loads it and describes it as the server's endpoints see it.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "cli/session.h"
#include "server/served_model.h"
#include "text/chat_template.h"

namespace millrace::cli {

/// Owns all that `served` points to.
struct LoadedModel {
  Session session;
  std::optional<text::ChatTemplate> chat_template;
  server::ServedModel served;
};

/// --served-model-name, else the model's file or folder without ".gguf".
std::vector<std::string> served_names(const Options& options);

/// What `serve` asks of memory and engine, checked: the ledger is printed. Loads nothing. Errors: exhausted, invalid_argument.
Result<Need> serve_need(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options);

/// `progress`: any thread, one at a time; the share that is done. `need`: as serve_need gave it.
Result<std::unique_ptr<LoadedModel>> load_served_model(ModelBundle bundle, const model::ModelConfig& config, const Options& options, const Need& need,
                                                       const std::function<void(double)>& progress);

}  // namespace millrace::cli
