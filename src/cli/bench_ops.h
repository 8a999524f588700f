#pragma once

// Where the time of a step goes: the launches of one prefill and of decode steps, by op and shape, beside the roof.

#include <string>
#include <vector>

#include "cli/roof.h"
#include "model/model.h"

namespace millrace::cli {

/// All launches of a step that do the same in different layers.
struct OpTime {
  std::string work;  // "prefill", "decode", "prefill to 4096"
  int batch = 1;
  std::string op, scope, shape;  // scope: "layers.*.ffn"
  int launches = 0;              // per step
  double us = 0;                 // per step, all of them together, barriers included
  double flops = 0, bytes = 0;   // per step
  ops::Arithmetic arithmetic = ops::Arithmetic::f32;
};

/// The roof for a kind of arithmetic, in 10^9 operations a second: f32's where the machine has none of its own for it.
double arithmetic_roof(const Roof& roof, ops::Arithmetic kind);

/// Runs steps of random tokens on an idle model, a prompt of `prompt_tokens` and then `batches` of one token each behind
/// `context` others, each drawn from at temperature 0.8 and top_p 0.95 (the row task, last of a step). What the KV cache
/// held is lost. Order: that of the graph.
Result<std::vector<OpTime>> time_ops(model::Model& model, int prompt_tokens, std::span<const int> batches, int context);

/// The same of long ones: the last `chunk` tokens of a prompt, and one token behind `context` others.
Result<std::vector<OpTime>> time_long_ops(model::Model& model, int prompt_tokens, int chunk, int context);

/// The `work` of its decode rows.
std::string decode_behind(int context);

/// "layers.17.ffn" -> "layers.*.ffn"
std::string any_layer(std::string_view scope);

}  // namespace millrace::cli
