#include "model/weight_store.h"

#include <cmath>
#include <cstring>
#include <span>

namespace millrace::model {

using graph::Shard;
using graph::Value;

Result<WeightStore> WeightStore::declare(const io::WeightSource& source, const ModelConfig& config, const Architecture& arch, int panel_rows, graph::Builder& g) {
  WeightStore store;
  store.source_ = &source;
  store.config_ = config;
  store.arch_ = &arch;
  store.panel_rows_ = panel_rows;
  Weights& w = store.values_;
  MILLRACE_TRY(embedding, store.add(Role::embedding, 0, {config.vocab_size, config.dim}, Shard::none, g));
  w.embedding = embedding;
  for (int i = 0; i < config.n_layers; ++i) {
    MILLRACE_TRY(layer, store.add_layer(i, g));
    w.layers.push_back(layer);
  }
  MILLRACE_TRY(norm, store.add(Role::output_norm, 0, {config.dim}, Shard::none, g));
  w.output_norm = norm;
  w.output = w.embedding;
  const bool has_head = source.find(tensor_name(source.kind(), Role::output)) != nullptr;
  if (has_head && !(config.tied_head && source.kind() == io::SourceKind::hf_folder)) {
    MILLRACE_TRY(output, store.add(Role::output, 0, {config.vocab_size, config.dim}, Shard::out, g));
    w.output = output;
  } else if (!has_head && !config.tied_head && source.kind() == io::SourceKind::hf_folder) {
    return error(Code::not_found, "tensor '{}' is missing and config.json does not tie the head to the embedding", tensor_name(source.kind(), Role::output));
  }
  MILLRACE_TRY_VOID(store.read_rope());

  for (const ops::PackedWeight& p : store.packed_) store.bytes_ += static_cast<std::int64_t>(p.bytes());
  store.bytes_per_token_ = store.bytes_;
  if (w.output.id != w.embedding.id) store.bytes_per_token_ -= static_cast<std::int64_t>(store.packed_[static_cast<std::size_t>(w.embedding.id.value)].bytes());
  return store;
}

Result<LayerWeights> WeightStore::add_layer(int i, graph::Builder& g) {
  const ModelConfig& c = config_;
  LayerWeights l;
  const auto put = [&](Value& to, Role role, std::initializer_list<std::int64_t> shape, Shard shard) -> Result<void> {
    MILLRACE_TRY(value, add(role, i, shape, shard, g));
    to = value;
    return {};
  };
  MILLRACE_TRY_VOID(put(l.attn_norm, Role::attn_norm, {c.dim}, Shard::none));
  MILLRACE_TRY_VOID(put(l.q, Role::q, {c.q_dim(), c.dim}, Shard::out));
  MILLRACE_TRY_VOID(put(l.k, Role::k, {c.kv_dim(), c.dim}, Shard::out));
  MILLRACE_TRY_VOID(put(l.v, Role::v, {c.kv_dim(), c.dim}, Shard::out));
  if (arch_->qkv_bias) {
    MILLRACE_TRY_VOID(put(l.q_bias.emplace(), Role::q_bias, {c.q_dim()}, Shard::out));
    MILLRACE_TRY_VOID(put(l.k_bias.emplace(), Role::k_bias, {c.kv_dim()}, Shard::out));
    MILLRACE_TRY_VOID(put(l.v_bias.emplace(), Role::v_bias, {c.kv_dim()}, Shard::out));
  } else if (const std::string bias = tensor_name(source_->kind(), Role::q_bias, i); source_->find(bias)) {
    return error(Code::unsupported, "tensor '{}' is there, but {} has no attention biases in this build", bias, arch_->name);
  }
  MILLRACE_TRY_VOID(put(l.attn_out, Role::attn_out, {c.dim, c.q_dim()}, Shard::in));
  MILLRACE_TRY_VOID(put(l.ffn_norm, Role::ffn_norm, {c.dim}, Shard::none));
  MILLRACE_TRY_VOID(put(l.gate, Role::gate, {c.ffn_dim, c.dim}, Shard::out));
  MILLRACE_TRY_VOID(put(l.up, Role::up, {c.ffn_dim, c.dim}, Shard::out));
  MILLRACE_TRY_VOID(put(l.down, Role::down, {c.dim, c.ffn_dim}, Shard::in));
  return l;
}

Result<Value> WeightStore::add(Role role, int layer, std::initializer_list<std::int64_t> dims, Shard shard, graph::Builder& g) {
  const std::string name = tensor_name(source_->kind(), role, layer);
  const tensor::ConstTensorView* found = source_->find(name);
  if (!found) return error(Code::not_found, "tensor '{}' is missing", name);
  const tensor::Shape shape = dims;
  if (found->desc.shape != shape)
    return error(Code::corrupt_data, "tensor '{}' has shape {}, expected {}", name, to_string(found->desc.shape), to_string(shape));
  auto packed = ops::describe_packed(found->desc, panel_rows_);
  if (!packed) return std::move(packed).error().in("tensor '" + name + "'");

  const Value value = g.weight(name, {packed->dtype, shape}, shard);
  Entry entry{found, value.id.value, {}};
  const bool rotated = role == Role::q || role == Role::k || role == Role::q_bias || role == Role::k_bias;
  if (rotated && arch_->gguf_rope_interleaved && source_->kind() == io::SourceKind::gguf) entry.order = {config_.head_dim, config_.rope.dims};
  entries_.push_back(entry);
  packed_.resize(static_cast<std::size_t>(value.id.value) + 1);
  packed_.back() = *packed;
  return value;
}

Result<void> WeightStore::read_rope() {
  std::vector<float> factors;
  const std::string name = tensor_name(source_->kind(), Role::rope_freqs);
  const tensor::ConstTensorView* found = name.empty() ? nullptr : source_->find(name);
  if (found) {
    const tensor::TensorDesc want{tensor::DType::f32, {config_.rope.dims / 2}};
    if (found->desc != want) return error(Code::corrupt_data, "tensor '{}' is {}, expected {}", name, to_string(found->desc), to_string(want));
    factors.resize(static_cast<std::size_t>(config_.rope.dims / 2));
    std::memcpy(factors.data(), found->data, factors.size() * 4);
    for (const float f : factors)
      if (!(f > 0) || !std::isfinite(f)) return error(Code::corrupt_data, "tensor '{}' holds {}, expected positive factors", name, f);
  }
  values_.rope = rope_frequencies(config_.rope, factors);
  return {};
}

Result<void> WeightStore::allocate(device::Device& device) {
  auto buffer = device.allocate(static_cast<std::size_t>(bytes_));
  if (!buffer) return std::move(buffer).error().in("room for the weights");
  buffer_ = *std::move(buffer);
  std::byte* at = buffer_.data();
  for (ops::PackedWeight& p : packed_) {
    p.data = at;
    at += p.bytes();
  }
  return {};
}

void WeightStore::load(device::CoreGroup& group, const std::function<void(double)>& progress) {
  double done = 0;
  for (const Entry& entry : entries_) {
    const ops::PackedWeight& to = packed_[static_cast<std::size_t>(entry.value)];
    ops::pack(*entry.source, entry.order, to, group);
    source_->release(*entry.source);
    done += static_cast<double>(to.bytes());
    if (progress) progress(done / static_cast<double>(bytes_));
  }
}

}  // namespace millrace::model
