#include "graph/builder.h"

#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rope.h"
#include "ops/rowwise.h"

namespace millrace::graph {

using ops::Rows;
using tensor::DType;

Value Builder::new_value(ValueInfo info) {
  graph_->values.push_back(std::move(info));
  return {{static_cast<std::int32_t>(graph_->values.size()) - 1}};
}

Value Builder::input(Source source, const char* name, Rows rows) {
  for (std::size_t i = 0; i < graph_->values.size(); ++i)
    if (graph_->values[i].source == source) return {{static_cast<std::int32_t>(i)}};
  return new_value({.desc = {DType::i32, {1}, rows}, .source = source, .name = name});
}

Value Builder::token_ids() { return input(Source::token_ids, "token_ids", Rows::tokens); }
Value Builder::positions() { return input(Source::positions, "positions", Rows::tokens); }
Value Builder::output_rows() { return input(Source::output_rows, "output_rows", Rows::outputs); }

Value Builder::weight(const std::string& name, const tensor::TensorDesc& desc, Shard shard) {
  const auto [found, is_new] = weights_.try_emplace(name);
  if (is_new) found->second = new_value({.desc = {desc.dtype, desc.shape, Rows::fixed}, .source = Source::weight, .name = name, .shard = shard});
  return found->second;
}

/// After an error the graph goes on with values of no shape; finish() reports the first one.
std::vector<Value> Builder::apply(std::unique_ptr<ops::Op> op, std::vector<Value> in) {
  std::vector<ops::ValueDesc> types;
  for (const Value v : in) types.push_back(desc(v));
  std::vector<Value> out;
  auto inferred = op->infer(types);
  if (!inferred) {
    if (!error_) error_ = std::move(inferred).error().in(scope_);
    for (int i = 0; i < 2; ++i) out.push_back(new_value({.desc = {}, .name = scope_}));
    return out;
  }
  Node node{std::move(op), {}, {}, scope_};
  for (const Value v : in) node.inputs.push_back(v.id);
  for (const ops::ValueDesc& d : *inferred) {
    out.push_back(new_value({.desc = d, .name = scope_}));
    node.outputs.push_back(out.back().id);
  }
  graph_->nodes.push_back(std::move(node));
  return out;
}

Value Builder::apply_one(std::unique_ptr<ops::Op> op, std::vector<Value> in) { return apply(std::move(op), std::move(in)).front(); }

Value Builder::view(Value x, tensor::Shape row) {
  ValueInfo info = graph_->value(x.id);
  if (info.desc.row.elements() != row.elements() && !error_)
    error_ = error(Code::invalid_argument, "{}: {} seen as {}", scope_, to_string(info.desc), to_string(row));
  info.desc.row = row;
  info.view_of = graph_->storage(x.id);
  return new_value(std::move(info));
}

Value Builder::converted(Value x, Value w) {
  const DType want = ops::activation_type(desc(w).dtype);
  if (desc(x).dtype == want) return x;
  const auto [found, is_new] = converted_.try_emplace({x.id.value, want});
  if (is_new) found->second = apply_one(ops::make_convert(want), {x});
  return found->second;
}

Value Builder::embed(Value table, Value ids) { return apply_one(ops::make_embed(), {ids, table}); }
Value Builder::rms_norm(Value x, Value gain, float eps) { return apply_one(ops::make_rms_norm(eps), {x, gain}); }
Value Builder::linear(Value x, Value w) { return apply_one(ops::make_linear(desc(x).rows), {converted(x, w), w}); }
Value Builder::logits(Value x, Value w) { return apply_one(ops::make_linear(Rows::logits), {converted(x, w), w}); }
Value Builder::add_bias(Value x, Value bias) { return apply_one(ops::make_add_bias(), {x, bias}); }

Value Builder::heads(Value x, int n_heads) { return view(x, {n_heads, desc(x).row.elements() / n_heads}); }
Value Builder::flat(Value x) { return view(x, {desc(x).row.elements()}); }

Angles Builder::rope_angles(Value positions, std::vector<double> inverse_frequencies, double attention_factor) {
  const std::vector<Value> out = apply(ops::make_rope_angles(std::move(inverse_frequencies), attention_factor), {positions});
  return {out[0], out[1]};
}
Value Builder::rope(Value x, Angles angles) { return apply_one(ops::make_rope(), {x, angles.cos, angles.sin}); }
void Builder::cache_write(Value k, Value v, int layer) { apply(ops::make_cache_write(layer), {k, v}); }
Value Builder::attend(Value q, int layer, int kv_heads, float scale, Value reader, int window) {
  DType to = ops::activation_type(desc(reader).dtype);
  if (to == DType::q8_act && desc(q).row.elements() / kv_heads % 32 != 0) to = DType::f32;  // a block of 32 would span two KV heads
  return apply_one(ops::make_attend(layer, kv_heads, scale, window, to), {q});
}
Value Builder::gated_linear(Value x, Value gate, Value up, Value reader) {
  if (ops::activation_type(desc(gate).dtype) != ops::activation_type(desc(up).dtype)) return swiglu(linear(x, gate), linear(x, up));
  return apply_one(ops::make_gated_linear(ops::activation_type(desc(reader).dtype)), {converted(x, gate), gate, up});
}
Value Builder::swiglu(Value gate, Value up) { return apply_one(ops::make_swiglu(), {gate, up}); }
Value Builder::add(Value a, Value b) { return apply_one(ops::make_add(), {a, b}); }
Value Builder::rows(Value x, Value indices) { return apply_one(ops::make_gather_rows(), {x, indices}); }

Result<std::unique_ptr<Graph>> Builder::finish(Value logits, Value hidden) && {
  if (error_) return *std::move(error_);
  graph_->logits = logits.id;
  graph_->hidden = hidden.id;
  return std::move(graph_);
}

}  // namespace millrace::graph
