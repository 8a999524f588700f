#pragma once

// What weights are for, and how each source format spells them. One row per weight in names.cpp.

#include <string>

#include "io/weight_source.h"

namespace millrace::model {

enum class Role {
  embedding, output_norm, output, rope_freqs,                  // once per model
  attn_norm, q, k, v, q_bias, k_bias, v_bias, attn_out,        // once per layer
  ffn_norm, gate, up, down,
};

/// "blk.3.attn_q.weight" or "model.layers.3.self_attn.q_proj.weight". `layer` is ignored for weights of the whole model.
/// Empty where the format has no such tensor.
std::string tensor_name(io::SourceKind kind, Role role, int layer = 0);

}  // namespace millrace::model
