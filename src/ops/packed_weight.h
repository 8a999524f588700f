#pragma once

// A weight as kernels read it: matrices in panels of output rows (kernels/params.h has the layout), vectors as f32.
// Which source formats there are, how each is packed and which activations it multiplies is one table here.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "device/core_group.h"
#include "tensor/view.h"

namespace millrace::ops {

/// Does not own its bytes.
struct PackedWeight {
  tensor::DType dtype = tensor::DType::f32;  // of the elements; vectors are f32
  std::int64_t n = 0;                        // output rows; elements of a vector
  std::int64_t k = 0;                        // inputs; 0 for a vector
  int panel_rows = 0;
  std::int64_t panels = 0;
  std::int64_t panel_bytes = 0;
  std::byte* data = nullptr;

  bool is_vector() const { return k == 0; }
  std::size_t bytes() const;
  const float* vector() const { return reinterpret_cast<const float*>(data); }
  const std::byte* panel(std::int64_t p) const { return data + p * panel_bytes; }
};

/// Sizes for `source` on a machine with `panel_rows`-row panels; data is null. A tensor of rank 1 is a vector.
/// Errors: unsupported, when this build has no kernels for the format; corrupt_data, when k is not whole blocks.
Result<PackedWeight> describe_packed(const tensor::TensorDesc& source, int panel_rows);

/// Maps a row of the packed matrix to the row of the source that it holds.
struct RowOrder {
  /// Rotary pairs: GGUF files of llama keep the two halves of each head's rotated part interleaved; we keep them apart,
  /// as transformers does. 0 = rows stay as they are.
  int interleaved_head_dim = 0;
  int interleaved_rot = 0;

  std::int64_t source_row(std::int64_t row) const;
};

/// Fills `to` (its data is allocated) from `source`, all workers of `group` together, each first touching the panels
/// that its share of a matrix product will read.
void pack(const tensor::ConstTensorView& source, const RowOrder& order, const PackedWeight& to, device::CoreGroup& group);

/// out[i] = the exact values of one row of a packed matrix. out f32 [k].
void unpack_row(const PackedWeight& w, std::int64_t row, float* out);

/// What a matrix of this format is multiplied with: f32 for f32 and f16, bf16 for bf16, q8_act for integer formats.
tensor::DType activation_type(tensor::DType weight);

/// Formats that describe_packed takes.
std::span<const tensor::DType> packable_types();

}  // namespace millrace::ops
