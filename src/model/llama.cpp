// Llama (2, 3, SmolLM2, TinyLlama, ...): pre-norm, grouped-query attention with rotary positions, SwiGLU.
//
// Primitive ops only: what shares an input or follows at once is fused by the graph passes, so that this file stays the
// paper's text and every source format fits.

#include "model/architectures.h"

namespace millrace::model {

BuiltModel build_llama(graph::Builder& g, const ModelConfig& c, const Weights& w) {
  const graph::Angles angles = g.rope_angles(g.positions(), w.rope.inverse, w.rope.attention_factor);

  graph::Value x = g.embed(w.embedding, g.token_ids());
  for (int i = 0; i < c.n_layers; ++i) {
    const LayerWeights& l = w.layers[static_cast<std::size_t>(i)];
    g.scope("layers." + std::to_string(i) + ".attn");
    const graph::Value h = g.rms_norm(x, l.attn_norm, c.norm_eps);
    const graph::Value q = g.linear(h, l.q);
    const graph::Value k = g.linear(h, l.k);
    const graph::Value v = g.linear(h, l.v);
    x = attention_block(g, c, l, i, x, q, k, v, angles);
    x = swiglu_block(g, c, l, i, x);
  }
  return output_block(g, c, w, x);
}

}  // namespace millrace::model
