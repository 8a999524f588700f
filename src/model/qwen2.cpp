// Qwen2 and Qwen2.5 (dense): as Llama, with biases on q, k and v.

#include "model/architectures.h"

namespace millrace::model {

BuiltModel build_qwen2(graph::Builder& g, const ModelConfig& c, const Weights& w) {
  const graph::Angles angles = g.rope_angles(g.positions(), w.rope.inverse, w.rope.attention_factor);

  graph::Value x = g.embed(w.embedding, g.token_ids());
  for (int i = 0; i < c.n_layers; ++i) {
    const LayerWeights& l = w.layers[static_cast<std::size_t>(i)];
    g.scope("layers." + std::to_string(i) + ".attn");
    const graph::Value h = g.rms_norm(x, l.attn_norm, c.norm_eps);
    const graph::Value q = g.add_bias(g.linear(h, l.q), *l.q_bias);
    const graph::Value k = g.add_bias(g.linear(h, l.k), *l.k_bias);
    const graph::Value v = g.add_bias(g.linear(h, l.v), *l.v_bias);
    x = attention_block(g, c, l, i, x, q, k, v, angles);
    x = swiglu_block(g, c, l, i, x);
  }
  return output_block(g, c, w, x);
}

}  // namespace millrace::model
