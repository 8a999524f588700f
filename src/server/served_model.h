#pragma once

// The model that is served, as endpoints see it: made by who loads it, immutable from then on.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "sampling/sampler.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace millrace::server {

struct ServedModel {
  std::vector<std::string> names;  // what clients may call it; the first is what answers say. Not empty
  engine::Engine* engine = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat_template = nullptr;  // or none:
  std::string no_template_because;                    // one sentence; then only endpoints with raw prompts work
  std::int64_t context_tokens = 0;                    // prompt plus answer of one request, at most
  int embedding_dim = 0;
  std::int64_t created_s = 0;                         // since the epoch
  std::string fingerprint;                            // "fp_" and 12 hex digits: weights, kernels, format; OpenAI's system_fingerprint

  /// What generation_config.json wishes where a request says nothing.
  std::optional<float> default_temperature, default_top_p, default_min_p, default_repetition_penalty;
  std::optional<int> default_top_k;

  text::Json about;  // architecture, weights, KV format, isa, threads ...: shown by /v1/models and /v1/capabilities as it is
};

}  // namespace millrace::server
