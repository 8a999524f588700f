#pragma once

// Shape and TensorDesc: what a tensor is.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace millrace::tensor {

/// Up to four dimensions, outermost first, as in [tokens, heads, head_dim].
class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> dims) {
    for (auto d : dims) push_back(d);
  }
  constexpr void push_back(std::int64_t d) {
    MILLRACE_CHECK(rank_ < 4, "rank over 4");
    dims_[static_cast<std::size_t>(rank_++)] = d;
  }
  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t last() const { return rank_ ? dims_[static_cast<std::size_t>(rank_ - 1)] : 1; }
  constexpr std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<std::size_t>(i)];
    return n;
  }
  constexpr std::int64_t rows() const { return last() ? elements() / last() : 0; }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, 4> dims_{};
  int rank_ = 0;
};

/// "[512, 14, 64]"
std::string to_string(const Shape& shape);

struct TensorDesc {
  DType dtype = DType::f32;
  Shape shape;

  /// Bytes of one row. The last dimension is a whole number of blocks.
  constexpr std::size_t row_bytes() const {
    const auto b = layout_of(dtype);
    MILLRACE_CHECK(shape.last() % b.elements == 0, "row is not whole blocks");
    return static_cast<std::size_t>(shape.last() / b.elements) * static_cast<std::size_t>(b.bytes);
  }
  constexpr std::size_t bytes() const { return static_cast<std::size_t>(shape.rows()) * row_bytes(); }
  friend constexpr bool operator==(const TensorDesc&, const TensorDesc&) = default;
};

/// "f32 [512, 896]"
std::string to_string(const TensorDesc& desc);

}  // namespace millrace::tensor
