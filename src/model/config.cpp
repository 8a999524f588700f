#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "io/json_walk.h"
#include "io/printable.h"
#include "model/architectures.h"

namespace millrace::model {
namespace {

// Far above any published model, and low enough that every product of them that we form stays below 2^63:
// layers * kv width * positions * 2 * 4 bytes is 2^60.
constexpr std::int64_t kMostLayers = 1024;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;  // dim, ffn_dim, heads * head_dim
constexpr std::int64_t kMostHeadDim = 4096;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 23;  // vocabulary
constexpr std::int64_t kMostPositions = std::int64_t{1} << 27;

/// What the two worlds call one thing.
struct KeyNames { std::string layers, positions, dim, ffn_dim, heads, kv_heads, head_dim, norm_eps; };

Error unsupported(std::string_view key, std::string_view value, std::string_view rule) {
  return error(Code::unsupported, "{} is '{}', {}", key, io::printable(value), rule);
}

Result<std::string> supported_architecture(std::string_view key, std::string_view name) {
  if (!find_architecture(name)) return unsupported(key, name, "this build reads " + architecture_names());
  return std::string(name);
}

Result<int> get_count(const Metadata& keys, std::string_view key, std::int64_t most) {
  MILLRACE_TRY(value, keys.get_int(key, 1, most));
  return static_cast<int>(value);
}

/// The sizes that both worlds have, with errors that name the key as the file spells it.
Result<ModelConfig> read_sizes(const Metadata& keys, const KeyNames& names) {
  ModelConfig c;
  MILLRACE_TRY(layers, get_count(keys, names.layers, kMostLayers));
  MILLRACE_TRY(dim, get_count(keys, names.dim, kMostWidth));
  MILLRACE_TRY(ffn_dim, get_count(keys, names.ffn_dim, kMostWidth));
  MILLRACE_TRY(heads, get_count(keys, names.heads, dim));
  MILLRACE_TRY(kv_heads, keys.get_int_or(names.kv_heads, heads, 1, heads));
  MILLRACE_TRY(positions, get_count(keys, names.positions, kMostPositions));
  MILLRACE_TRY(norm_eps, keys.get_float(names.norm_eps));
  if (heads % kv_heads != 0)
    return error(Code::corrupt_data, "{} is {}, which does not divide the {} of {}", names.kv_heads, kv_heads, heads,
                 names.heads);
  if (!keys.find(names.head_dim) && dim % heads != 0)
    return error(Code::corrupt_data, "{} is {}, which does not divide the {} of {}", names.heads, heads, dim,
                 names.dim);
  MILLRACE_TRY(head_dim, keys.get_int_or(names.head_dim, dim / heads, 1, kMostHeadDim));
  c.n_layers = layers;
  c.dim = dim;
  c.ffn_dim = ffn_dim;
  c.n_heads = heads;
  c.n_kv_heads = static_cast<int>(kv_heads);
  c.head_dim = static_cast<int>(head_dim);
  c.max_positions = positions;
  c.norm_eps = static_cast<float>(norm_eps);
  c.rope.dims = c.head_dim;
  return c;
}

/// Refuses what would change the result and is not built. `keys` has it as a bool that has to be false.
Result<void> check_off(const Metadata& keys, std::string_view key) {
  MILLRACE_TRY(on, keys.get_bool_or(key, false));
  if (on) return unsupported(key, "true", "this build needs it to be false");
  return {};
}

// ---- GGUF ----------------------------------------------------------------------------------------------------

Result<RopeConfig> read_gguf_rope(const Metadata& keys, const std::string& arch, const ModelConfig& c) {
  const std::string rope_key = arch + ".rope.", scaling_key = rope_key + "scaling.";
  RopeConfig rope = c.rope;
  MILLRACE_TRY(theta, keys.get_float_or(rope_key + "freq_base", 10000.0));
  MILLRACE_TRY(dims, keys.get_int_or(rope_key + "dimension_count", c.head_dim, 2, c.head_dim));
  rope.theta = theta;
  rope.dims = static_cast<int>(dims);
  // Files from 2023 have only scale_linear.
  MILLRACE_TRY(old_linear, keys.get_float_or(rope_key + "scale_linear", 1.0));
  MILLRACE_TRY(type, keys.get_string_or(scaling_key + "type", old_linear != 1.0 ? "linear" : "none"));
  MILLRACE_TRY(factor, keys.get_float_or(scaling_key + "factor", old_linear));
  if (type == "none") return rope;
  rope.factor = factor;
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
    return rope;
  }
  if (type != "yarn") return unsupported(scaling_key + "type", type, "this build reads none, linear, yarn");
  rope.scaling = RopeScaling::yarn;
  MILLRACE_TRY(original, keys.get_float_or(scaling_key + "original_context_length", c.max_positions));
  MILLRACE_TRY(fast, keys.get_float_or(scaling_key + "yarn_beta_fast", rope.beta_fast));
  MILLRACE_TRY(slow, keys.get_float_or(scaling_key + "yarn_beta_slow", rope.beta_slow));
  MILLRACE_TRY(attn_factor, keys.get_float_or(scaling_key + "attn_factor", 1.0));
  MILLRACE_TRY(yarn_attn_factor, keys.get_float_or(scaling_key + "yarn_attn_factor", attn_factor));
  for (const char* name : {"yarn_ext_factor", "yarn_log_multiplier"})
    if (keys.find(scaling_key + name))
      return unsupported(scaling_key + name, "set", "this build reads only files without it");
  rope.original_context = original;
  rope.beta_fast = fast;
  rope.beta_slow = slow;
  // The file has a multiplier of the usual factor, RopeConfig the factor itself.
  if (yarn_attn_factor != 1.0) rope.attention_factor = yarn_attn_factor * (0.1 * std::log(factor) + 1.0);
  return rope;
}

/// The token list counts when there is one: a smaller vocab_size would cut off tokens.
Result<int> read_gguf_vocab(const Metadata& keys, const std::string& arch) {
  const std::string list = "tokenizer.ggml.tokens";
  const MetadataValue* tokens = keys.find(list);
  if (!tokens) return get_count(keys, arch + ".vocab_size", kMostTokens);
  const auto* texts = std::get_if<std::vector<std::string_view>>(tokens);
  if (!texts || texts->empty() || texts->size() > static_cast<std::size_t>(kMostTokens))
    return error(Code::corrupt_data, "metadata key '{}' is no list of 1 to {} strings", list, kMostTokens);
  return static_cast<int>(texts->size());
}

Result<ModelConfig> read_gguf(const io::WeightSource& source) {
  const Metadata& keys = source.metadata();
  MILLRACE_TRY(name, keys.get_string("general.architecture"));
  MILLRACE_TRY(arch, supported_architecture("general.architecture", name));
  const auto key = [&](const char* tail) { return arch + "." + tail; };
  MILLRACE_TRY(experts, keys.get_int_or(key("expert_count"), 0, 0, 1 << 16));
  if (experts > 0)
    return unsupported(key("expert_count"), std::to_string(experts), "this build has no mixture of experts");
  MILLRACE_TRY(
      c, read_sizes(keys, {key("block_count"), key("context_length"), key("embedding_length"),
                           key("feed_forward_length"), key("attention.head_count"), key("attention.head_count_kv"),
                           key("attention.key_length"), key("attention.layer_norm_rms_epsilon")}));
  MILLRACE_TRY(value_length, keys.get_int_or(key("attention.value_length"), c.head_dim, 1, kMostHeadDim));
  if (value_length != c.head_dim)
    return unsupported(key("attention.value_length"), std::to_string(value_length),
                       fmt::format("keys have length {}, this build needs both equal", c.head_dim));
  MILLRACE_TRY(window, keys.get_int_or(key("attention.sliding_window"), 0, 0, 1ll << 40));
  if (window > 0 && window < c.max_positions)
    return unsupported(key("attention.sliding_window"), std::to_string(window), "this build has no sliding windows");
  MILLRACE_TRY(rope, read_gguf_rope(keys, arch, c));
  MILLRACE_TRY(vocab_size, read_gguf_vocab(keys, arch));
  c.architecture = arch;
  c.rope = rope;
  c.vocab_size = vocab_size;
  c.tied_head = source.find("output.weight") == nullptr;
  return c;
}

// ---- Hugging Face config.json --------------------------------------------------------------------------------

/// at: "rope_scaling." or, in files of transformers 5, "rope_parameters.".
Result<void> read_hf_scaling(const Metadata& keys, const std::string& at, ModelConfig& c) {
  RopeConfig& rope = c.rope;
  MILLRACE_TRY(old_type, keys.get_string_or(at + "type", "default"));
  MILLRACE_TRY(type, keys.get_string_or(at + "rope_type", old_type));
  if (type == "default") return {};
  MILLRACE_TRY(factor, keys.get_float(at + "factor"));
  rope.factor = factor;
  const std::string original_key = at + "original_max_position_embeddings";
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::llama3;
    MILLRACE_TRY(low, keys.get_float(at + "low_freq_factor"));
    MILLRACE_TRY(high, keys.get_float(at + "high_freq_factor"));
    MILLRACE_TRY(original, keys.get_float(original_key));
    rope.low_freq_factor = low;
    rope.high_freq_factor = high;
    rope.original_context = original;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    for (const char* name : {"mscale", "mscale_all_dim"})
      if (keys.find(at + name)) return unsupported(at + name, "set", "this build reads only files without it");
    MILLRACE_TRY(truncate, keys.get_bool_or(at + "truncate", true));
    if (!truncate) return unsupported(at + "truncate", "false", "this build needs it to be true");
    MILLRACE_TRY(original, keys.get_float_or(original_key, c.max_positions));
    MILLRACE_TRY(fast, keys.get_float_or(at + "beta_fast", rope.beta_fast));
    MILLRACE_TRY(slow, keys.get_float_or(at + "beta_slow", rope.beta_slow));
    MILLRACE_TRY(attention, keys.get_float_or(at + "attention_factor", 0.0));
    rope.original_context = original;
    rope.beta_fast = fast;
    rope.beta_slow = slow;
    rope.attention_factor = attention;
    // Qwen's model pages ask for nothing but rope_scaling to extend a context; max_position_embeddings stays the
    // old one.
    c.max_positions = std::max(c.max_positions, static_cast<int>(std::min<double>(original * factor, kMostPositions)));
  } else {
    return unsupported(at + "rope_type", type, "this build reads default, linear, llama3, yarn");
  }
  return {};
}

Result<void> check_hf_features(const Metadata& keys, std::string_view arch) {
  MILLRACE_TRY(activation, keys.get_string_or("hidden_act", "silu"));
  if (activation != "silu") return unsupported("hidden_act", activation, "this build reads silu");
  MILLRACE_TRY_VOID(check_off(keys, "use_sliding_window"));
  // Qwen2 has biases at fixed places and no key for them.
  if (arch == "llama")
    for (const char* key : {"attention_bias", "mlp_bias"}) MILLRACE_TRY_VOID(check_off(keys, key));
  MILLRACE_TRY(quantized, keys.get_string_or("quantization_config.quant_method", ""));
  if (!quantized.empty())
    return unsupported("quantization_config.quant_method", quantized,
                       "this build reads folders of plain floats; use a GGUF file");
  for (const std::string at : {"", "rope_parameters."}) {
    MILLRACE_TRY(partial, keys.get_float_or(at + "partial_rotary_factor", 1.0));
    if (partial != 1.0)
      return unsupported(at + "partial_rotary_factor", std::to_string(partial), "this build rotates whole heads");
  }
  return {};
}

Result<ModelConfig> read_hf_keys(const Metadata& keys) {
  MILLRACE_TRY(name, keys.get_string("model_type"));
  MILLRACE_TRY(arch, supported_architecture("model_type", name));
  MILLRACE_TRY_VOID(check_hf_features(keys, arch));
  MILLRACE_TRY(c, read_sizes(keys, {"num_hidden_layers", "max_position_embeddings", "hidden_size", "intermediate_size",
                                    "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps"}));
  MILLRACE_TRY(vocab_size, get_count(keys, "vocab_size", kMostTokens));
  MILLRACE_TRY(tied, keys.get_bool_or("tie_word_embeddings", false));
  MILLRACE_TRY(old_theta, keys.get_float_or("rope_theta", 10000.0));
  MILLRACE_TRY(theta, keys.get_float_or("rope_parameters.rope_theta", old_theta));
  c.architecture = arch;
  c.vocab_size = vocab_size;
  c.tied_head = tied;
  c.rope.theta = theta;
  const bool is_new = keys.find("rope_parameters.rope_type") || keys.find("rope_parameters.type");
  MILLRACE_TRY_VOID(read_hf_scaling(keys, is_new ? "rope_parameters." : "rope_scaling.", c));
  return c;
}

Result<ModelConfig> read_hf(const io::WeightSource& source) {
  const std::string* text = source.text_file("config.json");
  if (!text) return error(Code::not_found, "the folder has no config.json");
  auto flat = io::flatten_json(*text);
  if (!flat) return std::move(flat).error().in("config.json");
  auto config = read_hf_keys(flat->metadata);
  if (!config) return std::move(config).error().in("config.json");
  return config;
}

}  // namespace

Result<ModelConfig> read_config(const io::WeightSource& source) {
  return source.kind() == io::SourceKind::gguf ? read_gguf(source) : read_hf(source);
}

Result<ModelConfig> validated(ModelConfig c) {
  const struct { const char* name; std::int64_t value, least, most; } counts[] = {
      {"n_layers", c.n_layers, 1, kMostLayers},
      {"dim", c.dim, 1, kMostWidth},
      {"ffn_dim", c.ffn_dim, 1, kMostWidth},
      {"n_heads", c.n_heads, 1, kMostWidth},
      {"n_kv_heads", c.n_kv_heads, 1, c.n_heads},
      {"head_dim", c.head_dim, 2, kMostHeadDim},
      {"n_heads * head_dim", std::int64_t{c.n_heads} * c.head_dim, 2, kMostWidth},
      {"vocab_size", c.vocab_size, 1, kMostTokens},
      {"max_positions", c.max_positions, 1, kMostPositions},
      {"rope.dims", c.rope.dims, 2, c.head_dim},
  };
  for (const auto& [name, value, least, most] : counts)
    if (value < least || value > most)
      return error(Code::corrupt_data, "{} is {}, expected {} to {}", name, value, least, most);
  if (c.n_heads % c.n_kv_heads != 0)
    return error(Code::corrupt_data, "n_kv_heads is {}, which does not divide the {} of n_heads", c.n_kv_heads,
                 c.n_heads);
  if (c.rope.dims % 2 != 0) return error(Code::corrupt_data, "rope.dims is {}, expected an even number", c.rope.dims);

  const bool scaled = c.rope.scaling != RopeScaling::none, yarn = c.rope.scaling == RopeScaling::yarn;
  const bool original = yarn || c.rope.scaling == RopeScaling::llama3;
  // Written so that NaN is out of every range.
  const struct { const char* name; bool used; double value, least, most; } numbers[] = {
      {"norm_eps", true, c.norm_eps, 1e-20, 1.0},
      {"rope.theta", true, c.rope.theta, 1.0, 1e15},
      {"rope.factor", scaled, c.rope.factor, 1.0, 1e6},
      {"rope.original_context", original, c.rope.original_context, 1.0, static_cast<double>(kMostPositions)},
      {"rope.low_freq_factor", c.rope.scaling == RopeScaling::llama3, c.rope.low_freq_factor, 1e-6, 1e6},
      {"rope.high_freq_factor", c.rope.scaling == RopeScaling::llama3, c.rope.high_freq_factor,
       c.rope.low_freq_factor + 1e-6, 1e6},
      {"rope.beta_slow", yarn, c.rope.beta_slow, 1e-6, 1e6},
      {"rope.beta_fast", yarn, c.rope.beta_fast, c.rope.beta_slow, 1e6},
      {"rope.attention_factor", yarn, c.rope.attention_factor, 0.0, 1e6},
  };
  for (const auto& [name, used, value, least, most] : numbers)
    if (used && !(value >= least && value <= most))
      return error(Code::corrupt_data, "{} is {}, expected {} to {}", name, value, least, most);
  return c;
}

}  // namespace millrace::model
