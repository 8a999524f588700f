#pragma once

// The GGUF format, versions 2 and 3: header, key-value section, tensor table. Works on bytes; files, split sets and
// the meaning of keys are other people's concern. Source: the GGUF format page.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "io/tensor_table.h"
#include "io/weight_source.h"

namespace millrace::io {

struct GgufContent {
  Metadata metadata;                 // strings are views into the bytes
  std::vector<NamedTensor> tensors;  // in file order; TensorTable::make still has to look for duplicates
};

/// file: a whole GGUF file; it outlives the result. Takes time and memory linear in the header, whatever its counts
/// say: each is compared with the bytes that are left first.
/// Errors: corrupt_data, unsupported; each names the key or tensor, what was found and what was expected.
Result<GgufContent> parse_gguf(std::span<const std::byte> file);

/// Opens a GGUF file, or the whole split set that it is a part of. Errors as open_model, without the path.
Result<std::unique_ptr<WeightSource>> open_gguf(const std::string& path);

}  // namespace millrace::io
