#pragma once

// Rows times a run of neighbouring panels of one packed matrix: what every op with a matrix product does in a tile.

#include <algorithm>

#include "ops/op.h"

namespace millrace::ops {

class PanelProduct {
 public:
  /// `rows`: the most that a step has, which says where the parts of q8_act activations lie.
  PanelProduct(const PackedWeight& w, const kernels::KernelTable& kernels, int rows);

  const PackedWeight& weight() const { return w_; }

  /// c[r - row, i] (row stride c_stride) = sum_k x[r, k] w[i, k] for rows [row, row + rows) of x, in activation_type(w),
  /// and the outputs i of panels [panel, panel + panels), counted from the first of them.
  void run(std::byte* x, std::int64_t row, std::int64_t rows, std::int64_t panel, std::int64_t panels, float* c, std::int64_t c_stride) const;

  /// Outputs of these panels; the last of a matrix may be partial.
  std::int64_t columns(std::int64_t panel, std::int64_t panels) const;

 private:
  PackedWeight w_;
  const kernels::KernelTable& kernels_;
  kernels::gemm_q4_0_fn int_kernel_;  // nullptr: float weights
  int max_rows_;
};

/// Rows of a tile at most: activations of 128 rows and a panel block's weights are in L2 together.
inline constexpr int kMostTileRows = 128;

/// Work split of a product: a tile is row_block rows x one column chunk, a run of whole units of panels. Chunks are as
/// equal as units allow, so that workers with the same number of them have the same work. Tiles of one column chunk
/// follow each other, so that a worker keeps its weights in L2 while the rows stream by.
struct ProductTiling {
  int row_block;
  int unit;             // panels
  int panel_chunks;
  std::int64_t panels;  // of the matrix

  int row_blocks(int rows) const { return (rows + row_block - 1) / row_block; }
  std::int64_t units() const { return (panels + unit - 1) / unit; }
  std::int64_t first_panel(std::int64_t chunk) const { return std::min(panels, units() * chunk / panel_chunks * unit); }

  /// Panels of the widest chunk.
  std::int64_t panel_block() const { return std::min(panels, (units() + panel_chunks - 1) / panel_chunks * unit); }

  /// body(row, rows, panel, panels) for each tile of a step of `rows` rows.
  template <class Body>
  void for_tiles(device::Worker& worker, int rows, Body&& body) const {
    const int blocks = row_blocks(rows);
    worker.for_tiles(blocks * panel_chunks, [&](int tile) {
      const int row = tile % blocks * row_block;
      const std::int64_t panel = first_panel(tile / blocks);
      body(std::int64_t{row}, std::int64_t{std::min(row_block, rows - row)}, panel, first_panel(tile / blocks + 1) - panel);
    });
  }
};
std::string to_string(const ProductTiling& tiling);

/// A chunk has at most `most_panels`, and its first panel is a multiple of `unit`, a power of two; both may give way to each other.
ProductTiling choose_tiling(const PackedWeight& w, int max_rows, const SetupContext& ctx, int unit, std::int64_t most_panels);

/// What a product of `rows` rows moves and computes.
Work product_work(const PackedWeight& w, double rows);

/// "512x576 -> 1536 q4_0"
std::string product_shape(const PackedWeight& w, int rows);

}  // namespace millrace::ops
