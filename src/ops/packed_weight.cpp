#include "ops/packed_weight.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/int_formats.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"

namespace millrace::ops {
namespace {

using tensor::DType;

constexpr std::int64_t align64(std::int64_t n) { return (n + 63) / 64 * 64; }

/// nullptr for float formats.
const kernels::IntFormat* int_format(DType t) {
  switch (t) {
#define FORMAT(name, ...) \
  case DType::name: return &kernels::int_formats::name;
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
    default: return nullptr;
  }
}

/// One row p among `panel_rows` of an integer panel (kernels/params.h): where each of its parts is.
struct IntRow {
  kernels::IntFormat format;
  kernels::IntPanel at;
  std::int64_t panel_rows, p;

  IntRow(const PackedWeight& w, std::int64_t row)
      : format(*int_format(w.dtype)), at(int_panel(format, w.k / 32, w.panel_rows)), panel_rows(w.panel_rows), p(row % w.panel_rows) {}

  int groups() const { return format.super ? tensor::kSuperBlock / format.group : 0; }  // of a unit
  std::int64_t half(std::int64_t u) const { return (u * panel_rows + p) * 2; }
  std::int64_t group(std::int64_t g) const { return format.group == 16 ? (g / 2 * panel_rows + p) * 2 + g % 2 : g * panel_rows + p; }
  /// This row's 4 bytes of part i < bits of block b's planes.
  std::int64_t part(std::int64_t b, int i) const { return at.data + ((b * format.bits + i) * panel_rows + p) * 4; }
};

/// The `bits` groups of 4 bytes that one row and block has: planes N, T and O, or bytes.
using Planes = std::uint8_t[8][4];

constexpr int first_t(int bits) { return bits == 6 ? 4 : 0; }  // the group where plane T begins, and T's first bit of a code
constexpr bool has_t(int bits) { return bits == 6 || bits < 4; }

void write_planes(int bits, const std::uint8_t* code, Planes& out) {
  std::memset(out, 0, sizeof(out));
  const int t = first_t(bits), o = bits - 1;
  for (int s = 0; s < 4; ++s)
    for (int j = 0; j < 4; ++j) {
      const int low = code[4 * s + j], high = code[16 + 4 * s + j];
      const auto add = [&](int group, int value) { out[group][j] = static_cast<std::uint8_t>(out[group][j] | value); };
      if (bits == 8) add(s, low), add(4 + s, high);
      else if (bits >= 4) add(s, (low & 15) | (high & 15) << 4);
      if (has_t(bits)) add(t + s / 2, ((low >> t & 3) | (high >> t & 3) << 2) << s % 2 * 4);
      if (bits % 2 == 1) add(o, (low >> o & 1) << s | (high >> o & 1) << (4 + s));
    }
}

void read_planes(int bits, const Planes& in, std::uint8_t* code) {
  const int t = first_t(bits), o = bits - 1;
  for (int i = 0; i < 32; ++i) {
    const int high = i / 16, s = i % 16 / 4, j = i % 4;
    int q = bits == 8 ? in[i / 4][j] : bits >= 4 ? in[s][j] >> 4 * high & 15 : 0;
    if (has_t(bits)) q |= (in[t + s / 2][j] >> (s % 2 * 4 + high * 2) & 3) << t;
    if (bits % 2 == 1) q |= (in[o][j] >> (4 * high + s) & 1) << o;
    code[i] = static_cast<std::uint8_t>(q);
  }
}

/// One source row into its place in the panel.
void pack_int_row(const std::byte* source, const PackedWeight& w, std::int64_t row, std::byte* panel) {
  const IntRow to(w, row);
  const tensor::BlockLayout layout = tensor::layout_of(w.dtype);
  tensor::QuantCodes q{};
  for (std::int64_t u = 0; u < w.k / layout.elements; ++u) {
    tensor::unpack_block(w.dtype, source + u * layout.bytes, q);
    if (to.format.super) q.m ^= 0x8000;  // kernels add minimums
    std::memcpy(panel + to.at.scales + to.half(u), &q.d, 2);
    if (to.format.has_min) std::memcpy(panel + to.at.mins + to.half(u), &q.m, 2);
    for (int g = 0; g < to.groups(); ++g) {
      const std::int64_t at = to.group(u * to.groups() + g);
      const bool shared = shares_scale_byte(to.format);
      panel[to.at.group_scales + at] = static_cast<std::byte>(shared ? q.scale[g] | q.min[g] << 4 : q.scale[g]);
      if (to.format.has_min && !shared) panel[to.at.group_mins + at] = std::byte{q.min[g]};
    }
    for (int b = 0; b < layout.elements / 32; ++b) {
      Planes planes;
      write_planes(to.format.bits, q.code + 32 * b, planes);
      for (int i = 0; i < to.format.bits; ++i) std::memcpy(panel + to.part(u * (layout.elements / 32) + b, i), planes[i], 4);
    }
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

void pack_panel_row(const PackedWeight& w, const std::byte* source, std::int64_t row, std::byte* panel) {
  const int p = static_cast<int>(row % w.panel_rows);
  switch (w.dtype) {
    case DType::f32: return pack_float_row<float>(source, w.k, p, w.panel_rows, panel);
    case DType::f16: return pack_float_row<std::uint16_t>(source, w.k, p, w.panel_rows, panel);
    case DType::bf16: return pack_bf16_row(source, w.k, p, w.panel_rows, panel);
    default: return pack_int_row(source, w, row, panel);
  }
}

void unpack_int_row(const PackedWeight& w, std::int64_t row, float* out) {
  const std::byte* panel = w.panel(row / w.panel_rows);
  const IntRow from(w, row);
  const kernels::IntFormat f = from.format;
  for (std::int64_t b = 0; b < w.k / 32; ++b) {
    Planes planes;
    std::uint8_t code[32];
    for (int i = 0; i < f.bits; ++i) std::memcpy(planes[i], panel + from.part(b, i), 4);
    read_planes(f.bits, planes, code);
    const std::int64_t half = from.half(f.super ? b / 8 : b);
    const float d = tensor::f16_to_f32(half_at(panel + from.at.scales + half));
    const float m = f.has_min ? tensor::f16_to_f32(half_at(panel + from.at.mins + half)) : 0.0f;
    for (int i = 0; i < 32; ++i) {
      int weight = f.table ? kernels::kIq4Table[code[i]] : code[i] - f.offset;
      int min = 1;
      if (f.super) {
        const std::int64_t at = from.group(f.group == 16 ? 2 * b + i / 16 : b);
        const auto scale = static_cast<std::int8_t>(panel[from.at.group_scales + at]);
        weight *= shares_scale_byte(f) ? scale & 15 : scale;
        if (f.has_min) min = shares_scale_byte(f) ? (scale & 255) >> 4 : static_cast<int>(panel[from.at.group_mins + at]);
      }
      // Both products are exact: 11 bits of d times at most 13.
      out[b * 32 + i] = f.has_min ? d * static_cast<float>(weight) + m * static_cast<float>(min) : d * static_cast<float>(weight);
    }
  }
}

void widen_vector(const tensor::ConstTensorView& source, float* out) {
  for (std::int64_t i = 0, n = source.desc.shape.elements(); i < n; ++i) {
    if (source.desc.dtype == DType::f32) std::memcpy(out + i, source.data + i * 4, 4);
    else if (source.desc.dtype == DType::f16) out[i] = tensor::f16_to_f32(half_at(source.data + i * 2));
    else out[i] = tensor::bf16_to_f32(half_at(source.data + i * 2));
  }
}

constexpr std::array kPackable = {DType::f32, DType::f16, DType::bf16
#define FORMAT(name, ...) , DType::name
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
};

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
  if (activation_type(out.dtype) == DType::q8_act) out.panel_bytes = int_panel(*int_format(out.dtype), out.k / 32, panel_rows).bytes;
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
        if (row < to.n) pack_panel_row(to, source.data + order.source_row(row) * row_bytes, row, out);
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
  unpack_int_row(w, row, out);
}

}  // namespace millrace::ops
