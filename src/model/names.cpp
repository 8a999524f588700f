#include "model/names.h"

#include <fmt/format.h>

#include "base/check.h"

namespace millrace::model {
namespace {

struct NameRow { Role role; const char* gguf; const char* hf; };

// {} is the layer. GGUF: the tensor names of the format page. hf: transformers' state dict of Llama and Qwen2.
constexpr NameRow kNames[] = {
    {Role::embedding, "token_embd.weight", "model.embed_tokens.weight"},
    {Role::output_norm, "output_norm.weight", "model.norm.weight"},
    {Role::output, "output.weight", "lm_head.weight"},
    {Role::rope_freqs, "rope_freqs.weight", ""},
    {Role::attn_norm, "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"},
    {Role::q, "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"},
    {Role::k, "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight"},
    {Role::v, "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight"},
    {Role::q_bias, "blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias"},
    {Role::k_bias, "blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias"},
    {Role::v_bias, "blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias"},
    {Role::attn_out, "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight"},
    {Role::ffn_norm, "blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
    {Role::gate, "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight"},
    {Role::up, "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"},
    {Role::down, "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
};

}  // namespace

std::string tensor_name(io::SourceKind kind, Role role, int layer) {
  for (const NameRow& row : kNames)
    if (row.role == role) return fmt::format(fmt::runtime(kind == io::SourceKind::gguf ? row.gguf : row.hf), layer);
  MILLRACE_CHECK(false, "a role without a name: " + std::to_string(static_cast<int>(role)));
  return "";
}

}  // namespace millrace::model
