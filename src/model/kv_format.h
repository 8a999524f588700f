#pragma once

// Formats of the KV cache: their names, and the bytes that a token takes. Where the bytes lie is kv_store's business.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "model/config.h"
#include "ops/op.h"

namespace millrace::model {

/// int8: scales for each token and head, keys and values apart (kernels/params.h, KvWriteArgs).
enum class KvFormat : std::uint8_t { f32, f16, bf16, int8 };

struct KvFormatRow {
  KvFormat format;
  std::string_view name;
  tensor::DType dtype;
};
inline constexpr std::array kKvFormats = {
    KvFormatRow{KvFormat::f32, "f32", tensor::DType::f32},
    KvFormatRow{KvFormat::f16, "f16", tensor::DType::f16},
    KvFormatRow{KvFormat::bf16, "bf16", tensor::DType::bf16},
    KvFormatRow{KvFormat::int8, "int8", tensor::DType::int8_kv},
};
static_assert(kKvFormats[static_cast<std::size_t>(KvFormat::int8)].format == KvFormat::int8);

constexpr std::string_view to_string(KvFormat format) { return kKvFormats[static_cast<std::size_t>(format)].name; }
constexpr tensor::DType dtype_of(KvFormat format) { return kKvFormats[static_cast<std::size_t>(format)].dtype; }

constexpr std::optional<KvFormat> find_kv_format(std::string_view name) {
  for (const KvFormatRow& row : kKvFormats)
    if (row.name == name) return row.format;
  return std::nullopt;
}

/// Of all layers, scales included.
inline std::int64_t kv_bytes_per_token(const ModelConfig& config, KvFormat format) {
  return config.kv_vectors_per_token() * ops::kv_vector_bytes(dtype_of(format), config.head_dim);
}

}  // namespace millrace::model
