#include "cli/model_costs.h"

#include <array>
#include <string>

namespace millrace::cli {
namespace {

Arithmetic arithmetic_of(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::bf16: return Arithmetic::bf16;
    case tensor::DType::f32:
    case tensor::DType::f16: return Arithmetic::f32;
    default: return Arithmetic::int8;
  }
}

}  // namespace

ModelCosts costs_of(const io::WeightSource& source, const model::ModelConfig& config, std::int64_t weights_bytes,
                    std::int64_t kv_bytes_per_token) {
  ModelCosts costs;
  std::array<std::int64_t, 3> bytes_by_arithmetic{};
  for (const std::string_view name : source.tensor_names()) {
    const tensor::TensorDesc& desc = source.find(name)->desc;
    if (desc.shape.rank() >= 2) bytes_by_arithmetic[static_cast<std::size_t>(arithmetic_of(desc.dtype))] += static_cast<std::int64_t>(desc.bytes());
  }
  for (const auto kind : {Arithmetic::int8, Arithmetic::bf16, Arithmetic::f32})
    if (bytes_by_arithmetic[static_cast<std::size_t>(kind)] > bytes_by_arithmetic[static_cast<std::size_t>(costs.arithmetic)]) costs.arithmetic = kind;
  const double dim = config.dim, q = config.q_dim(), kv = config.kv_dim(), ffn = config.ffn_dim, layers = config.n_layers;
  costs.weights_bytes = weights_bytes;
  costs.kv_bytes_per_token = kv_bytes_per_token;
  costs.layer_flops_per_token = 2 * layers * (dim * (q + 2 * kv) + q * dim + 3 * dim * ffn);
  costs.head_flops = 2 * dim * config.vocab_size;
  costs.attention_flops_per_pair = 4 * layers * q;  // q k and p v, a multiply and an add each
  return costs;
}

double prefill_flops(const ModelCosts& costs, std::int64_t tokens) {
  const double n = static_cast<double>(tokens), pairs = n * (n + 1) / 2;
  return n * costs.layer_flops_per_token + costs.head_flops + pairs * costs.attention_flops_per_pair;
}

double decode_flops(const ModelCosts& costs, int batch, double context) {
  return batch * (costs.layer_flops_per_token + costs.head_flops + context * costs.attention_flops_per_pair);
}

double decode_bytes(const ModelCosts& costs, int batch, double context) {
  return static_cast<double>(costs.weights_bytes) + batch * context * static_cast<double>(costs.kv_bytes_per_token);
}

}  // namespace millrace::cli
