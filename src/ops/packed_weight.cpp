#include "ops/packed_weight.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"

namespace millrace::ops {
namespace {

using tensor::DType;

constexpr std::int64_t align64(std::int64_t n) { return (n + 63) / 64 * 64; }
constexpr std::int64_t kBlock = tensor::kQuantBlock;

/// Where the parts of an integer panel lie (kernels/params.h).
struct IntPanel {
  std::int64_t blocks, scales, mins, data;  // byte offsets; mins == 0: the format has none
  int steps;                                // groups of 4 bytes a row and block
  std::int64_t bytes;
};

IntPanel int_panel(DType t, std::int64_t k, int p) {
  IntPanel out{};
  out.blocks = k / kBlock;
  const std::int64_t halves = out.blocks * p * 2;
  out.mins = t == DType::q4_1 ? halves : 0;
  out.data = align64(halves + (t == DType::q4_1 ? halves : 0));
  out.steps = t == DType::q8_0 ? 8 : 4;
  out.bytes = align64(out.data + out.blocks * out.steps * p * 4);
  return out;
}

/// One source row into its place p among the panel's rows.
template <class Block>
void pack_int_row(const std::byte* row, const IntPanel& at, int p, int panel_rows, std::byte* panel) {
  for (std::int64_t b = 0; b < at.blocks; ++b) {
    Block block;
    std::memcpy(&block, row + b * static_cast<std::int64_t>(sizeof(Block)), sizeof(Block));
    std::memcpy(panel + at.scales + (b * panel_rows + p) * 2, &block.d, 2);
    if constexpr (requires { block.m; }) std::memcpy(panel + at.mins + (b * panel_rows + p) * 2, &block.m, 2);
    for (int s = 0; s < at.steps; ++s)
      std::memcpy(panel + at.data + ((b * at.steps + s) * panel_rows + p) * 4, reinterpret_cast<const std::byte*>(block.qs) + 4 * s, 4);
  }
}

template <class T>
void pack_float_row(const std::byte* row, std::int64_t k, int p, int panel_rows, std::byte* panel) {
  for (std::int64_t i = 0; i < k; ++i) std::memcpy(panel + (i * panel_rows + p) * static_cast<std::int64_t>(sizeof(T)), row + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
}

void pack_bf16_row(const std::byte* row, std::int64_t k, int p, int panel_rows, std::byte* panel) {
  for (std::int64_t i = 0; i < k; ++i) std::memcpy(panel + ((i / 2 * panel_rows + p) * 2 + i % 2) * 2, row + i * 2, 2);
}

std::uint16_t half_at(const std::byte* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return h;
}

void pack_panel_row(DType t, const std::byte* row, std::int64_t k, int p, int panel_rows, std::byte* panel) {
  switch (t) {
    case DType::q4_0: return pack_int_row<tensor::BlockQ4_0>(row, int_panel(t, k, panel_rows), p, panel_rows, panel);
    case DType::q4_1: return pack_int_row<tensor::BlockQ4_1>(row, int_panel(t, k, panel_rows), p, panel_rows, panel);
    case DType::q8_0: return pack_int_row<tensor::BlockQ8_0>(row, int_panel(t, k, panel_rows), p, panel_rows, panel);
    case DType::f32: return pack_float_row<float>(row, k, p, panel_rows, panel);
    case DType::f16: return pack_float_row<std::uint16_t>(row, k, p, panel_rows, panel);
    case DType::bf16: return pack_bf16_row(row, k, p, panel_rows, panel);
    default: MILLRACE_CHECK(false, "no packing for " + std::string(to_string(t)));
  }
}

void widen_vector(const tensor::ConstTensorView& source, float* out) {
  for (std::int64_t i = 0, n = source.desc.shape.elements(); i < n; ++i) {
    if (source.desc.dtype == DType::f32) std::memcpy(out + i, source.data + i * 4, 4);
    else if (source.desc.dtype == DType::f16) out[i] = tensor::f16_to_f32(half_at(source.data + i * 2));
    else out[i] = tensor::bf16_to_f32(half_at(source.data + i * 2));
  }
}

constexpr std::array kPackable = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1};

}  // namespace

std::span<const DType> packable_types() { return kPackable; }

tensor::DType activation_type(DType weight) {
  switch (weight) {
    case DType::f32:
    case DType::f16: return DType::f32;
    case DType::bf16: return DType::bf16;
    default: return DType::q8_act;
  }
}

std::size_t PackedWeight::bytes() const { return static_cast<std::size_t>(is_vector() ? align64(n * 4) : panels * panel_bytes); }

Result<PackedWeight> describe_packed(const tensor::TensorDesc& source, int panel_rows) {
  PackedWeight out;
  const bool known = std::ranges::find(kPackable, source.dtype) != kPackable.end();
  if (source.shape.rank() == 1) {
    if (source.dtype != DType::f32 && source.dtype != DType::f16 && source.dtype != DType::bf16)
      return error(Code::unsupported, "a vector of {}, expected f32, f16 or bf16", to_string(source.dtype));
    out.n = source.shape[0];
    return out;
  }
  if (!known) return error(Code::unsupported, "weights of {} have no kernels in this build", to_string(source.dtype));
  if (source.shape.rank() != 2) return error(Code::corrupt_data, "a matrix of shape {}, expected two dimensions", to_string(source.shape));
  out.dtype = source.dtype;
  out.n = source.shape[0];
  out.k = source.shape[1];
  const int unit = tensor::layout_of(source.dtype).elements;
  if (out.k % unit != 0) return error(Code::corrupt_data, "rows of {} values, expected a multiple of {} for {}", out.k, unit, to_string(source.dtype));
  out.panel_rows = panel_rows;
  out.panels = (out.n + panel_rows - 1) / panel_rows;
  if (activation_type(out.dtype) == DType::q8_act) out.panel_bytes = int_panel(out.dtype, out.k, panel_rows).bytes;
  else if (out.dtype == DType::bf16) out.panel_bytes = align64((out.k + 1) / 2 * panel_rows * 4);
  else out.panel_bytes = align64(out.k * panel_rows * tensor::layout_of(out.dtype).bytes);
  return out;
}

std::int64_t RowOrder::source_row(std::int64_t row) const {
  if (interleaved_head_dim == 0) return row;
  const std::int64_t head = row / interleaved_head_dim, i = row % interleaved_head_dim, half = interleaved_rot / 2;
  if (i >= interleaved_rot) return row;
  return head * interleaved_head_dim + (i < half ? 2 * i : 2 * (i - half) + 1);
}

void pack(const tensor::ConstTensorView& source, const RowOrder& order, const PackedWeight& to, device::CoreGroup& group) {
  if (to.is_vector()) {
    float* out = reinterpret_cast<float*>(to.data);
    std::vector<float> values(static_cast<std::size_t>(to.n));
    widen_vector(source, values.data());
    for (std::int64_t i = 0; i < to.n; ++i) out[i] = values[static_cast<std::size_t>(order.source_row(i))];
    return;
  }
  const auto row_bytes = static_cast<std::int64_t>(source.desc.row_bytes());
  group.run_once([&](device::Worker& worker) {
    worker.for_tiles(static_cast<int>(to.panels), [&](int panel) {
      std::byte* out = to.data + panel * to.panel_bytes;
      std::memset(out, 0, static_cast<std::size_t>(to.panel_bytes));
      for (int p = 0; p < to.panel_rows; ++p) {
        const std::int64_t row = std::int64_t{panel} * to.panel_rows + p;
        if (row < to.n) pack_panel_row(to.dtype, source.data + order.source_row(row) * row_bytes, to.k, p, to.panel_rows, out);
      }
    });
  });
}

void unpack_row(const PackedWeight& w, std::int64_t row, float* out) {
  const std::byte* panel = w.panel(row / w.panel_rows);
  const std::int64_t p = row % w.panel_rows, rows = w.panel_rows;
  if (w.dtype == DType::f32) {
    for (std::int64_t i = 0; i < w.k; ++i) std::memcpy(out + i, panel + (i * rows + p) * 4, 4);
    return;
  }
  if (w.dtype == DType::f16) {
    for (std::int64_t i = 0; i < w.k; ++i) out[i] = tensor::f16_to_f32(half_at(panel + (i * rows + p) * 2));
    return;
  }
  if (w.dtype == DType::bf16) {
    for (std::int64_t i = 0; i < w.k; ++i) out[i] = tensor::bf16_to_f32(half_at(panel + ((i / 2 * rows + p) * 2 + i % 2) * 2));
    return;
  }
  const IntPanel at = int_panel(w.dtype, w.k, w.panel_rows);
  for (std::int64_t b = 0; b < at.blocks; ++b) {
    const float d = tensor::f16_to_f32(half_at(panel + at.scales + (b * rows + p) * 2));
    const float m = at.mins ? tensor::f16_to_f32(half_at(panel + at.mins + (b * rows + p) * 2)) : 0.0f;
    for (std::int64_t i = 0; i < kBlock; ++i) {
      const std::int64_t byte = w.dtype == DType::q8_0 ? i : i % 16;  // of the row's own bytes of this block
      const auto q = static_cast<std::uint8_t>(panel[at.data + ((b * at.steps + byte / 4) * rows + p) * 4 + byte % 4]);
      float& value = out[b * kBlock + i];
      if (w.dtype == DType::q8_0) value = d * static_cast<float>(static_cast<std::int8_t>(q));
      else if (w.dtype == DType::q4_0) value = d * static_cast<float>((i < 16 ? q & 15 : q >> 4) - 8);
      else value = d * static_cast<float>(i < 16 ? q & 15 : q >> 4) + m;
    }
  }
}

}  // namespace millrace::ops
