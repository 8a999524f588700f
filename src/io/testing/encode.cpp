// Rounds values to a weight format, for tests only: fair scales, no search for better ones.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "io/testing/model_files.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"

namespace millrace::io::testing {
namespace {

using tensor::DType;

float largest(const float* v) {  // of a block, by magnitude, with its sign
  return *std::max_element(v, v + tensor::kQuantBlock, [](float a, float b) { return std::abs(a) < std::abs(b); });
}

int nearest(float x, int least, int most) { return std::clamp(static_cast<int>(std::lround(x)), least, most); }

std::string block(DType type, const float* v) {
  const float low = *std::min_element(v, v + tensor::kQuantBlock), high = *std::max_element(v, v + tensor::kQuantBlock);
  const float step = type == DType::q8_0 ? std::abs(largest(v)) / 127 : type == DType::q4_0 ? largest(v) / -8 : (high - low) / 15;
  const float inverse = step == 0 ? 0 : 1 / step;
  std::string out = bytes_of(tensor::f32_to_f16(step));
  if (type == DType::q4_1) out += bytes_of(tensor::f32_to_f16(low));
  if (type == DType::q8_0) {
    for (int i = 0; i < tensor::kQuantBlock; ++i) out += static_cast<char>(nearest(v[i] * inverse, -127, 127));
    return out;
  }
  const auto nibble = [&](float x) { return type == DType::q4_0 ? nearest(x * inverse + 8, 0, 15) : nearest((x - low) * inverse, 0, 15); };
  for (int i = 0; i < 16; ++i) out += static_cast<char>(nibble(v[i]) | nibble(v[i + 16]) << 4);
  return out;
}

}  // namespace

std::string encode(DType type, const std::vector<float>& values) {
  std::string out;
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) {
    for (const float v : values) out += type == DType::f32 ? bytes_of(v) : bytes_of(type == DType::f16 ? tensor::f32_to_f16(v) : tensor::f32_to_bf16(v));
    return out;
  }
  MILLRACE_CHECK(type == DType::q8_0 || type == DType::q4_0 || type == DType::q4_1, "no encoder for this format");
  MILLRACE_CHECK(values.size() % tensor::kQuantBlock == 0, "values that are not whole blocks");
  for (std::size_t i = 0; i < values.size(); i += tensor::kQuantBlock) out += block(type, values.data() + i);
  return out;
}

}  // namespace millrace::io::testing
