#pragma once

// What a step of a model has to read and to compute, from its config and its tensors: the numerators of roof_share.

#include <cstdint>

#include "io/weight_source.h"
#include "model/config.h"
#include "ops/op.h"

namespace millrace::cli {

using ops::Arithmetic;

struct ModelCosts {
  std::int64_t weights_bytes = 0;        // read once per step, whatever its batch
  std::int64_t kv_bytes_per_token = 0;
  double layer_flops_per_token = 0;      // matrix products of all layers
  double head_flops = 0;                 // per sampled row
  double attention_flops_per_pair = 0;   // per query token and key, all layers
  Arithmetic arithmetic = Arithmetic::f32;  // of most weights
};

/// `weights_bytes` and `kv_bytes_per_token` as the runner will read them (model::MemoryEstimate).
ModelCosts costs_of(const io::WeightSource& source, const model::ModelConfig& config, std::int64_t weights_bytes,
                    std::int64_t kv_bytes_per_token);

/// FLOPs of a prefill of `tokens` from an empty cache that samples its last row.
double prefill_flops(const ModelCosts& costs, std::int64_t tokens);

/// FLOPs and bytes of one decode step of `batch` sequences with `context` cached tokens each.
double decode_flops(const ModelCosts& costs, int batch, double context);
double decode_bytes(const ModelCosts& costs, int batch, double context);

}  // namespace millrace::cli
