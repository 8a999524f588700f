#pragma once

// Weights as an architecture file sees them, and what several architectures share.

#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "model/config.h"
#include "model/rope.h"

namespace millrace::model {

struct LayerWeights {
  graph::Value attn_norm, q, k, v, attn_out;
  std::optional<graph::Value> q_bias, k_bias, v_bias;
  graph::Value ffn_norm, gate, up, down;
};

struct Weights {
  graph::Value embedding, output_norm, output;
  std::vector<LayerWeights> layers;
  RopeFrequencies rope;
};

struct BuiltModel { graph::Value logits, hidden; };

/// x + out(attention(rope(q), rope(k), v)), keys and values appended to the cache of `layer` on the way.
/// q [T, q_dim], k and v [T, kv_dim] as projected; x [T, dim]. After the last layer's cache write only the rows that come
/// back are ever read again: the result has S rows there, T elsewhere.
graph::Value attention_block(graph::Builder& g, const ModelConfig& c, const LayerWeights& l, int layer, graph::Value x, graph::Value q, graph::Value k,
                             graph::Value v, graph::Angles angles);

/// x + down(silu(gate(norm(x))) * up(norm(x)))
graph::Value swiglu_block(graph::Builder& g, const ModelConfig& c, const LayerWeights& l, int layer, graph::Value x);

/// Output norm and head.
BuiltModel output_block(graph::Builder& g, const ModelConfig& c, const Weights& w, graph::Value x);

}  // namespace millrace::model
