#pragma once

// TensorView: where a tensor is. Owns nothing.

#include "tensor/shape.h"

namespace millrace::tensor {

/// A row-major tensor somewhere. Copy it freely.
struct TensorView {
  TensorDesc desc;
  std::byte* data = nullptr;

  template <class T>
  T* row(std::int64_t i) const {
    return reinterpret_cast<T*>(data + static_cast<std::size_t>(i) * desc.row_bytes());
  }
};

/// The same for bytes that nobody may change: a mapped file. Not necessarily aligned for its type: copy values out.
struct ConstTensorView {
  TensorDesc desc;
  const std::byte* data = nullptr;
};

}  // namespace millrace::tensor
