#include "tensor/shape.h"

namespace millrace::tensor {

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

std::string to_string(const TensorDesc& desc) { return std::string(to_string(desc.dtype)) + " " + to_string(desc.shape); }

}  // namespace millrace::tensor
