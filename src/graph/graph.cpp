#include "graph/graph.h"

#include <fmt/format.h>

namespace millrace::graph {

std::string dump(const Graph& graph) {
  std::string out;
  const auto name = [&](ValueId id) {
    const ValueInfo& v = graph.value(id);
    return v.source == Source::op ? fmt::format("%{}", id.value) : v.name;
  };
  for (const Node& node : graph.nodes) {
    out += fmt::format("{:<22} {:<12}", node.scope, node.op->name());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) out += fmt::format("{}{}", i ? ", " : " ", name(node.inputs[i]));
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      out += fmt::format("{}{}: {}", i ? ", " : " -> ", name(node.outputs[i]), to_string(graph.value(node.outputs[i]).desc));
    out += '\n';
  }
  return out;
}

}  // namespace millrace::graph
