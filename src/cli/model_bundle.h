#pragma once

// What belongs to one model name: its files, its tokenizer, its chat template. Weights stay on disk; session.h loads them.

#include <memory>
#include <string>

#include "base/result.h"
#include "io/weight_source.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace millrace::cli {

struct ModelBundle {
  std::string path;  // on disk
  std::unique_ptr<io::WeightSource> source;
  std::unique_ptr<text::Tokenizer> tokenizer;
};

/// The path behind `model`: itself when something lies there, else the cached file of a known name. No network.
/// Errors: not_found (a known name that has not been fetched; with the way out).
Result<std::string> resolve_model(const std::string& model);

Result<std::unique_ptr<io::WeightSource>> open_source(const std::string& model);
Result<std::unique_ptr<text::Tokenizer>> open_tokenizer(const io::WeightSource& source);

/// Source and tokenizer. Tensors are not looked at: a GGUF that holds a vocabulary alone is fine.
Result<ModelBundle> open_bundle(const std::string& model);

/// The template's own text: GGUF metadata, or the folder's chat_template.jinja or tokenizer_config.json.
/// Errors: not_found.
Result<std::string> template_text(const io::WeightSource& source);

}  // namespace millrace::cli
