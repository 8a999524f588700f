#pragma once

// Writes a forward pass down, op by op, in the words of the paper. Checks shapes at once and keeps the first error, so
// model code reads straight through without `if`s.
//
// Letters in shapes: T tokens in the step, S rows that come back, L of them as logits.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace millrace::graph {

/// A tensor that a graph will compute. Copy it freely.
struct Value { ValueId id; };

/// Cosines and sines of the step's positions.
struct Angles { Value cos, sin; };

class Builder {
 public:
  Value token_ids();    // i32 [T]
  Value positions();    // i32 [T]
  Value output_rows();  // i32 [S]

  /// A weight by its logical name; the same name gives the same value. `desc` is that of the packed weight.
  Value weight(const std::string& name, const tensor::TensorDesc& desc, Shard shard);

  Value embed(Value table, Value token_ids);                       // [T] -> [T, dim]
  Value rms_norm(Value x, Value gain, float eps);                  // [.., dim] -> same
  Value linear(Value x, Value w);                                  // [T, in] x [out, in] -> [T, out]
  Value logits(Value x, Value w);                                  // [S, in] x [out, in] -> [L, out]
  Value add_bias(Value x, Value bias);                             // [T, n] + [n] in each row
  Value heads(Value x, int n_heads);                               // [T, n*d] -> [T, n, d], no copy
  Value flat(Value x);                                             // [T, n, d] -> [T, n*d], no copy
  Angles rope_angles(Value positions, std::vector<double> inverse_frequencies, double attention_factor);
  Value rope(Value x, Angles angles);                              // [T, heads, d] -> same
  void cache_write(Value k, Value v, int layer);                   // appends this step's rows to the KV cache
  /// [R, heads, d] over the cached rows up to each query's own -> [R, heads * d], as linear(..., reader) takes it.
  Value attend(Value q, int layer, int kv_heads, float scale, Value reader, int window = 0);
  Value gated_linear(Value x, Value gate, Value up, Value reader);  // swiglu of two linears, as linear(..., reader) takes it
  Value swiglu(Value gate, Value up);                              // silu(gate) * up
  Value add(Value a, Value b);
  Value rows(Value x, Value indices);                              // [T, ..] -> [S, ..]

  /// Names the values that follow: "layers.3.attn". For profiles, dumps and error messages.
  void scope(std::string name) { scope_ = std::move(name); }

  /// Errors: the first one of any call above, prefixed with its scope.
  Result<std::unique_ptr<Graph>> finish(Value logits, Value hidden) &&;

 private:
  Value input(Source source, const char* name, ops::Rows rows);
  std::vector<Value> apply(std::unique_ptr<ops::Op> op, std::vector<Value> in);
  Value apply_one(std::unique_ptr<ops::Op> op, std::vector<Value> in);
  Value view(Value x, tensor::Shape row);
  Value converted(Value x, Value w);
  const ops::ValueDesc& desc(Value v) const { return graph_->value(v.id).desc; }
  Value new_value(ValueInfo info);

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  std::map<std::string, Value> weights_;
  std::map<std::pair<std::int32_t, tensor::DType>, Value> converted_;  // activations, converted once for all their readers
  std::string scope_;
  std::optional<Error> error_;
};

}  // namespace millrace::graph
