#pragma once

// The safetensors format (a JSON header, then the data) and the index of a sharded model. Works on bytes; which files
// a folder has is hf_folder.cpp's concern.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/tensor_table.h"
#include "io/weight_source.h"

namespace millrace::io {

/// file: a whole safetensors file; it outlives the result. Tensors come in the order of the header;
/// TensorTable::make still has to look for overlaps.
/// Errors: corrupt_data, unsupported (element type); each names the tensor where there is one.
Result<std::vector<NamedTensor>> parse_safetensors(std::span<const std::byte> file);

struct ShardEntry {
  std::string tensor;
  std::string shard;  // a plain file name: no slash, not "..", so that it cannot leave the folder
};

/// text: model.safetensors.index.json. Errors: corrupt_data.
Result<std::vector<ShardEntry>> parse_shard_index(std::string_view text);

/// Opens a folder with config.json and model.safetensors or its shards. A folder without weights opens too (its
/// tokenizer is of use); it has no tensors. Errors as open_model, without the path.
Result<std::unique_ptr<WeightSource>> open_hf_folder(const std::string& path);

}  // namespace millrace::io
