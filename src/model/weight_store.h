#pragma once

// The weights of a model: declared to the graph by name, checked against the config, packed once at load into one
// buffer that the device owns.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "io/weight_source.h"
#include "model/architectures.h"
#include "model/names.h"
#include "ops/packed_weight.h"

namespace millrace::model {

class WeightStore {
 public:
  /// Declares every weight of `arch` to `g` and checks its presence and shape. Reads no weight data but rope factors.
  /// Errors: not_found, corrupt_data (shape), unsupported (format); each names the tensor.
  static Result<WeightStore> declare(const io::WeightSource& source, const ModelConfig& config, const Architecture& arch, int panel_rows, graph::Builder& g);

  const Weights& values() const { return values_; }

  /// Packed bytes of all weights; and of those that one decoded token reads (the embedding table of an untied model
  /// gives one row only).
  std::int64_t bytes() const { return bytes_; }
  std::int64_t bytes_per_token() const { return bytes_per_token_; }

  /// Reserves the memory; the packed weights then have their addresses, not yet their contents. Errors: exhausted.
  Result<void> allocate(device::Device& device);

  /// Packs all tensors, in the group's workers; pages of the source are released one tensor after the other.
  /// `progress` gets the share done, 0..1.
  void load(device::CoreGroup& group, const std::function<void(double)>& progress);

  /// By value id of the graph.
  std::span<const ops::PackedWeight> packed() const { return packed_; }

 private:
  struct Entry {
    const tensor::ConstTensorView* source;
    std::int32_t value;
    ops::RowOrder order;
  };
  Result<graph::Value> add(Role role, int layer, std::initializer_list<std::int64_t> shape, graph::Shard shard, graph::Builder& g);
  Result<LayerWeights> add_layer(int layer, graph::Builder& g);
  Result<void> read_rope();

  const io::WeightSource* source_ = nullptr;
  ModelConfig config_;
  const Architecture* arch_ = nullptr;
  int panel_rows_ = 0;
  Weights values_;
  std::vector<Entry> entries_;
  std::vector<ops::PackedWeight> packed_;
  std::int64_t bytes_ = 0, bytes_per_token_ = 0;
  device::Buffer buffer_;
};

}  // namespace millrace::model
