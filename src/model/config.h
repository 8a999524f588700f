#pragma once

// What kind of transformer this is, in one struct for every source format.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "io/weight_source.h"

namespace millrace::model {

enum class RopeScaling { none, linear, llama3, yarn };

/// Rotary embedding. `factor` and the rest are read by the kinds that use them.
struct RopeConfig {
  double theta = 10000.0;
  int dims = 0;  // rotated dimensions of a head; even, <= head_dim
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;
  double original_context = 0;             // llama3, yarn
  double low_freq_factor = 1.0;            // llama3
  double high_freq_factor = 4.0;           // llama3
  double beta_fast = 32.0;                 // yarn
  double beta_slow = 1.0;                  // yarn
  double attention_factor = 0;             // yarn; 0 = 0.1 ln(factor) + 1
};

struct ModelConfig {
  std::string architecture;  // "llama"; picks the file that builds the graph
  int n_layers = 0;
  int dim = 0;      // residual stream width
  int ffn_dim = 0;
  int n_heads = 0;
  int n_kv_heads = 0;  // divides n_heads
  int head_dim = 0;
  int vocab_size = 0;
  int max_positions = 0;  // trained context
  float norm_eps = 0;
  bool tied_head = false;  // no output matrix of its own: the embedding serves. GGUF: "output.weight" is absent
  RopeConfig rope;

  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }
  /// Vectors of head_dim numbers that the KV cache has for a token: keys and values.
  std::int64_t kv_vectors_per_token() const { return std::int64_t{2} * n_layers * n_kv_heads; }
};

/// Reads `<arch>.*` metadata or config.json. Does not look at tensors, but for tied_head of a GGUF file.
/// Errors: not_found, corrupt_data, unsupported (architecture, activation, rope kind); each names the key, its
/// value and the rule.
Result<ModelConfig> read_config(const io::WeightSource& source);

/// Everything a later division, product or allocation relies on, checked once, here: ranges, divisibility,
/// products that fit. Errors: corrupt_data, naming the field, its value and the rule.
Result<ModelConfig> validated(ModelConfig config);

}  // namespace millrace::model
