#pragma once

// A forward pass as data: values and the ops between them. Made by Builder, read by passes and by Plan.

#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "ops/op.h"

namespace millrace::graph {

/// Where a value comes from.
enum class Source : std::uint8_t { op, token_ids, positions, output_rows, weight };

/// How a weight may be cut over devices (tensor parallelism): not at all, by output rows, by inputs.
enum class Shard : std::uint8_t { none, out, in };

struct ValueInfo {
  ops::ValueDesc desc;
  Source source = Source::op;
  std::string name;       // of a weight: its logical name; of an op's output: its scope
  Shard shard = Shard::none;
  ValueId view_of;        // the value whose bytes this one shows in another shape; -1 = its own
};

struct Node {
  std::unique_ptr<ops::Op> op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string scope;  // "layers.3.attn"
};

struct Graph {
  std::vector<ValueInfo> values;
  std::vector<Node> nodes;  // in an order in which they can run
  ValueId logits;           // f32 [L, vocab]
  ValueId hidden;           // f32 [S, dim]: after the output norm

  const ValueInfo& value(ValueId id) const { return values[static_cast<std::size_t>(id.value)]; }

  /// The value that owns the bytes of `id`.
  ValueId storage(ValueId id) const { return value(id).view_of.value < 0 ? id : value(id).view_of; }
};

/// One line per node: scope, op, inputs, outputs with their types. For `inspect --graph` and for tests.
std::string dump(const Graph& graph);

}  // namespace millrace::graph
