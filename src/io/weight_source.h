#pragma once

// A model on disk: named tensors and metadata, mapped, not copied. gguf.cpp and safetensors.cpp implement it;
// nothing above this line knows which one it is, except model/config.cpp and model/names.cpp, which read keys and
// names of both worlds.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "tensor/view.h"

namespace millrace::io {

enum class SourceKind { gguf, hf_folder };

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual SourceKind kind() const = 0;

  /// The path as the user gave it.
  virtual const std::string& path() const = 0;

  /// Shape is outermost first ([out, in] for a matrix) in both formats. nullptr when absent.
  virtual const tensor::ConstTensorView* find(std::string_view tensor) const = 0;

  /// In file order.
  virtual std::vector<std::string_view> tensor_names() const = 0;

  /// GGUF: the key-value section (of the first file of a split set). Folder: empty.
  virtual const Metadata& metadata() const = 0;

  /// Folder: the whole text of config.json, tokenizer.json, ...; nullptr where absent, and for GGUF.
  virtual const std::string* text_file(std::string_view name) const = 0;

  /// Tells the system that the pages of this tensor will not be read again soon: they leave the resident set.
  /// The data stays valid. Called after packing, so that the mapping and the packed copy never both stay resident.
  virtual void release(const tensor::ConstTensorView& tensor) const = 0;
};

/// Maps `path` (a .gguf file, the first or any of a split set, or a folder with config.json) and checks every
/// offset, size, count, type and product of dimensions in its headers against the file before anything is
/// allocated by them. A WeightSource never reads outside the file, whatever the file says. Only regular files are
/// opened. Errors: not_found, corrupt_data (tensor or key, value, what was expected), unsupported (version, type);
/// each names the path.
Result<std::unique_ptr<WeightSource>> open_model(const std::string& path);

}  // namespace millrace::io
