// The tiny random models of model_files.h.

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <random>

#include "io/testing/model_files.h"

namespace millrace::io::testing {
namespace {

/// Uniform in [-1, 1) from 24 bits: the same on every machine, which std::normal_distribution is not.
float draw(std::mt19937& rng) { return static_cast<float>(rng() >> 8) * 0x1p-23f - 1.0f; }

/// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"
std::string gguf_name(const std::string& name) {
  static const std::map<std::string, std::string, std::less<>> kNames = {{"model.embed_tokens", "token_embd"},
                                                                         {"lm_head", "output"},
                                                                         {"model.norm", "output_norm"},
                                                                         {"input_layernorm", "attn_norm"},
                                                                         {"post_attention_layernorm", "ffn_norm"},
                                                                         {"self_attn.q_proj", "attn_q"},
                                                                         {"self_attn.k_proj", "attn_k"},
                                                                         {"self_attn.v_proj", "attn_v"},
                                                                         {"self_attn.o_proj", "attn_output"},
                                                                         {"mlp.gate_proj", "ffn_gate"},
                                                                         {"mlp.up_proj", "ffn_up"},
                                                                         {"mlp.down_proj", "ffn_down"}};
  const std::string layers = "model.layers.";
  const std::size_t dot = name.rfind('.');
  const std::string stem = name.substr(0, dot), tail = name.substr(dot);  // ".weight" or ".bias"
  if (!stem.starts_with(layers)) return kNames.at(stem) + tail;
  const std::size_t after_number = stem.find('.', layers.size());
  return "blk." + stem.substr(layers.size(), after_number - layers.size()) + "." +
         kNames.at(stem.substr(after_number + 1)) + tail;
}

/// Rotary pairs are (i, i + d/2) in transformers and (2i, 2i + 1) in a llama GGUF: row 2i+j of a head is row i + j*d/2.
std::vector<float> interleaved(const std::vector<float>& rows, int heads, int head_dim) {
  const auto width = rows.size() / static_cast<std::size_t>(heads * head_dim);
  std::vector<float> out;
  out.reserve(rows.size());
  for (int h = 0; h < heads; ++h)
    for (int r = 0; r < head_dim; ++r) {
      const auto from =
          static_cast<std::ptrdiff_t>(static_cast<std::size_t>(h * head_dim + r / 2 + r % 2 * (head_dim / 2)) * width);
      out.insert(out.end(), rows.begin() + from, rows.begin() + from + static_cast<std::ptrdiff_t>(width));
    }
  return out;
}

}  // namespace

std::vector<TensorSpec> TinyModel::tensors() const {
  std::mt19937 rng(seed);
  std::vector<TensorSpec> out;
  const auto add = [&](const std::string& name, const tensor::Shape& shape, float middle, float spread) {
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (float& v : values) v = middle + spread * draw(rng);
    out.push_back({name, shape, std::move(values)});
  };
  // A sum of n products of +-1 and +-s has a size of about s * sqrt(n / 3).
  const auto matrix = [&](const std::string& name, int rows, int columns) {
    add(name + ".weight", {rows, columns}, 0.0f, std::sqrt(3.0f / static_cast<float>(columns)));
  };
  const auto norm = [&](const std::string& name) { add(name + ".weight", {dim}, 1.0f, 0.25f); };
  const int q_dim = heads * head_dim, kv_dim = kv_heads * head_dim;
  add("model.embed_tokens.weight", {vocab, dim}, 0.0f, 1.0f);
  for (int l = 0; l < layers; ++l) {
    const std::string at = fmt::format("model.layers.{}.", l);
    norm(at + "input_layernorm");
    for (const auto& [name, rows] : {std::pair{"q", q_dim}, std::pair{"k", kv_dim}, std::pair{"v", kv_dim}}) {
      const std::string projection = fmt::format("{}self_attn.{}_proj", at, name);
      matrix(projection, rows, dim);
      if (architecture == "qwen2") add(projection + ".bias", {rows}, 0.0f, 0.5f);
    }
    matrix(at + "self_attn.o_proj", dim, q_dim);
    norm(at + "post_attention_layernorm");
    matrix(at + "mlp.gate_proj", ffn_dim, dim);
    matrix(at + "mlp.up_proj", ffn_dim, dim);
    matrix(at + "mlp.down_proj", dim, ffn_dim);
  }
  norm("model.norm");
  if (!tied) matrix("lm_head", vocab, dim);
  return out;
}

std::string TinyModel::config_json() const {
  return fmt::format(
      R"({{"model_type":"{}","hidden_size":{},"intermediate_size":{},"num_hidden_layers":{},"num_attention_heads":{},)"
      R"("num_key_value_heads":{},"head_dim":{},"max_position_embeddings":{},"vocab_size":{},"rms_norm_eps":1e-6,)"
      R"("rope_theta":{:.1f},"hidden_act":"silu","tie_word_embeddings":{}{}}})",
      architecture, dim, ffn_dim, layers, heads, kv_heads, head_dim, positions, vocab, rope_theta, tied, more_config);
}

void TinyModel::write_folder(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  write_file(folder / "config.json", config_json());
  write_file(folder / "model.safetensors", safetensors_bytes(tensors()));
}

GgufWriter TinyModel::gguf() const {
  GgufWriter out;
  const auto key = [&](const char* tail) { return architecture + "." + tail; };
  const auto u32 = [&](const char* tail, int value) { out.u32(key(tail), static_cast<std::uint32_t>(value)); };
  out.text("general.architecture", architecture);
  u32("block_count", layers);
  u32("context_length", positions);
  u32("embedding_length", dim);
  u32("feed_forward_length", ffn_dim);
  u32("attention.head_count", heads);
  u32("attention.head_count_kv", kv_heads);
  u32("attention.key_length", head_dim);
  u32("attention.value_length", head_dim);
  u32("rope.dimension_count", head_dim);
  out.f32(key("attention.layer_norm_rms_epsilon"), 1e-6f);
  out.f32(key("rope.freq_base"), static_cast<float>(rope_theta));
  std::vector<std::string> tokens;
  for (int t = 0; t < vocab; ++t) tokens.push_back(fmt::format("t{}", t));
  out.texts("tokenizer.ggml.tokens", tokens);
  for (TensorSpec& t : tensors()) {
    if (architecture == "llama" && t.name.ends_with("q_proj.weight")) t.values = interleaved(t.values, heads, head_dim);
    if (architecture == "llama" && t.name.ends_with("k_proj.weight"))
      t.values = interleaved(t.values, kv_heads, head_dim);
    const tensor::DType type = t.shape.rank() == 2 ? matrices : tensor::DType::f32;
    out.tensor(gguf_name(t.name), {type, t.shape}, encode(type, t.values));
  }
  return out;
}

}  // namespace millrace::io::testing
