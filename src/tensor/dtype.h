#pragma once

// Element types of tensors. A block format is a type whose unit is a block of elements (tensor/quant_blocks.h).
// One row here gives a format its name, its sizes and its GGUF number; unpacking lives in ops/packed_weight.*.

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::tensor {

// DTYPE(name, elements per block, bytes per block, GGUF type number or -1). GGUF numbers: the ggml_type list of
// the GGUF format page. q8_act: activations, see kernels/params.h, QuantizeArgs. int8_kv: keys and values, the scales beside
// each vector not counted, see there, KvWriteArgs.
#define MILLRACE_DTYPES(DTYPE) \
  DTYPE(f32, 1, 4, 0)          \
  DTYPE(f16, 1, 2, 1)          \
  DTYPE(q4_0, 32, 18, 2)       \
  DTYPE(q4_1, 32, 20, 3)       \
  DTYPE(q5_0, 32, 22, 6)       \
  DTYPE(q5_1, 32, 24, 7)       \
  DTYPE(q8_0, 32, 34, 8)       \
  DTYPE(q2_k, 256, 84, 10)     \
  DTYPE(q3_k, 256, 110, 11)    \
  DTYPE(q4_k, 256, 144, 12)    \
  DTYPE(q5_k, 256, 176, 13)    \
  DTYPE(q6_k, 256, 210, 14)    \
  DTYPE(iq4_nl, 32, 18, 20)    \
  DTYPE(iq4_xs, 256, 136, 23)  \
  DTYPE(i8, 1, 1, 24)          \
  DTYPE(i16, 1, 2, 25)         \
  DTYPE(i32, 1, 4, 26)         \
  DTYPE(i64, 1, 8, 27)         \
  DTYPE(f64, 1, 8, 28)         \
  DTYPE(bf16, 1, 2, 30)        \
  DTYPE(q8_act, 32, 40, -1)    \
  DTYPE(int8_kv, 1, 1, -1)

enum class DType : std::uint8_t {
#define DTYPE(name, elements, bytes, gguf) name,
  MILLRACE_DTYPES(DTYPE)
#undef DTYPE
};

/// Elements per block and bytes per block. A plain type is a block of one.
struct BlockLayout { int elements; int bytes; };

constexpr BlockLayout layout_of(DType t) {
  switch (t) {
#define DTYPE(name, elements, bytes, gguf) case DType::name: return {elements, bytes};
    MILLRACE_DTYPES(DTYPE)
#undef DTYPE
  }
  return {1, 0};
}

constexpr std::string_view to_string(DType t) {
  switch (t) {
#define DTYPE(name, elements, bytes, gguf) case DType::name: return #name;
    MILLRACE_DTYPES(DTYPE)
#undef DTYPE
  }
  return "?";
}

constexpr std::optional<DType> dtype_from_gguf(std::uint32_t number) {
#define DTYPE(name, elements, bytes, gguf) if (gguf >= 0 && number == static_cast<std::uint32_t>(gguf)) return DType::name;
  MILLRACE_DTYPES(DTYPE)
#undef DTYPE
  return std::nullopt;
}

}  // namespace millrace::tensor
