#include "model/blocks.h"

#include <cmath>

namespace millrace::model {

using graph::Value;

Value attention_block(graph::Builder& g, const ModelConfig& c, const LayerWeights& l, int layer, Value x, Value q, Value k, Value v, graph::Angles angles) {
  q = g.rope(g.heads(q, c.n_heads), angles);
  k = g.rope(g.heads(k, c.n_kv_heads), angles);
  g.cache_write(k, g.heads(v, c.n_kv_heads), layer);
  if (layer + 1 == c.n_layers) {
    q = g.rows(q, g.output_rows());
    x = g.rows(x, g.output_rows());
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  return g.add(x, g.linear(g.attend(q, layer, c.n_kv_heads, scale, l.attn_out), l.attn_out));
}

Value swiglu_block(graph::Builder& g, const ModelConfig& c, const LayerWeights& l, int layer, Value x) {
  g.scope("layers." + std::to_string(layer) + ".ffn");
  const Value h = g.rms_norm(x, l.ffn_norm, c.norm_eps);
  return g.add(x, g.linear(g.gated_linear(h, l.gate, l.up, l.down), l.down));
}

BuiltModel output_block(graph::Builder& g, const ModelConfig& c, const Weights& w, Value x) {
  g.scope("output");
  const Value hidden = g.rms_norm(x, w.output_norm, c.norm_eps);
  return {g.logits(hidden, w.output), hidden};
}

}  // namespace millrace::model
