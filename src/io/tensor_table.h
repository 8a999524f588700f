#pragma once

// The tensors of a model by name, and the checks that hold for tensors of every file format. Does not know where a
// header comes from.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/view.h"

namespace millrace::io {

/// The largest published model has 91,000; more is an attempt to make us ask for memory.
inline constexpr std::uint64_t kMostTensors = std::uint64_t{1} << 17;

struct NamedTensor {
  std::string name;
  tensor::ConstTensorView view;
};

/// dims: outermost first, as they are in the file. The result's bytes() does not overflow.
/// Errors: corrupt_data (a dimension of 0, a product beyond 2^63 bytes, a row that is no whole number of blocks),
/// unsupported (more than four dimensions); both name the tensor.
Result<tensor::TensorDesc> checked_desc(std::string_view name, tensor::DType dtype,
                                        std::span<const std::uint64_t> dims);

/// Immutable. Views point into files that outlive the table.
class TensorTable {
 public:
  TensorTable() = default;

  /// Errors: corrupt_data when two tensors have one name or share a byte.
  static Result<TensorTable> make(std::vector<NamedTensor> tensors);

  /// nullptr when absent.
  const tensor::ConstTensorView* find(std::string_view name) const;

  /// In the order they were given to make().
  std::vector<std::string_view> names() const;

 private:
  std::vector<NamedTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, names ascending
};

}  // namespace millrace::io
