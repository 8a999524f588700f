#pragma once

// Every architecture, in one list. No self-registration: what is here is what there is.

#include <string>
#include <string_view>

#include "model/blocks.h"

namespace millrace::model {

struct Architecture {
  std::string_view name;        // as in general.architecture / config.json model_type
  bool qkv_bias;                // q, k and v have biases
  bool gguf_rope_interleaved;   // GGUF files keep rotary pairs side by side: rows of q and k are put back at load
  BuiltModel (*build)(graph::Builder&, const ModelConfig&, const Weights&);
};

/// nullptr when this build has none of that name.
const Architecture* find_architecture(std::string_view name);

/// "llama, qwen2", for messages.
std::string architecture_names();

BuiltModel build_llama(graph::Builder& g, const ModelConfig& c, const Weights& w);
BuiltModel build_qwen2(graph::Builder& g, const ModelConfig& c, const Weights& w);

}  // namespace millrace::model
