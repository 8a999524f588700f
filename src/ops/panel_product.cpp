#include "ops/panel_product.h"

#include <fmt/format.h>

#include "ops/activations.h"

namespace millrace::ops {
namespace {

using tensor::DType;

kernels::gemm_q4_0_fn int_kernel(const kernels::KernelTable& kernels, DType weights) {
  switch (weights) {
#define FORMAT(name, ...) \
  case DType::name: return kernels.gemm_##name;
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
    default: return nullptr;
  }
}

}  // namespace

PanelProduct::PanelProduct(const PackedWeight& w, const kernels::KernelTable& kernels, int rows)
    : w_(w), kernels_(kernels), int_kernel_(int_kernel(kernels, w.dtype)), max_rows_(rows) {}

std::int64_t PanelProduct::columns(std::int64_t panel, std::int64_t panels) const {
  return std::min(w_.n - panel * w_.panel_rows, panels * w_.panel_rows);
}

void PanelProduct::run(std::byte* x, std::int64_t row, std::int64_t rows, std::int64_t panel, std::int64_t panels, float* c, std::int64_t c_stride) const {
  const std::int64_t n = columns(panel, panels), k = w_.k;
  const auto* w = reinterpret_cast<const std::uint8_t*>(w_.panel(panel));
  switch (w_.dtype) {
    case DType::f32:
    case DType::f16: {
      const kernels::GemmFloatArgs args{reinterpret_cast<const float*>(x) + row * k, k, rows, k, w, w_.panel_bytes, panels, c, c_stride, n};
      return (w_.dtype == DType::f32 ? kernels_.gemm_f32 : kernels_.gemm_f16)(args);
    }
    case DType::bf16:
      return kernels_.gemm_bf16({reinterpret_cast<const std::uint16_t*>(x) + row * k, k, rows, k, w, w_.panel_bytes, panels, c, c_stride, n});
    default: {
      const Q8Rows q8 = q8_rows(x, max_rows_, k);
      const std::int64_t blocks = k / 32;
      return int_kernel_({q8.q + row * k, q8.scale + row * blocks, q8.sum + row * blocks * 2, rows, blocks, w, w_.panel_bytes, panels, c, c_stride, n});
    }
  }
}

ProductTiling choose_tiling(const PackedWeight& w, int max_rows, const SetupContext& ctx, int unit, std::int64_t most_panels) {
  // Half of L2 for weights; the rest for the rows' activations and the output tile.
  const std::int64_t panels_in_l2 = std::max<std::int64_t>(1, ctx.l2_bytes / 2 / w.panel_bytes);
  const std::int64_t most = std::clamp<std::int64_t>(std::min(panels_in_l2, most_panels), 1, w.panels);
  ProductTiling t{};
  t.panels = w.panels;
  t.row_block = std::min(max_rows, kMostTileRows);
  // Four neighbours are what one GEMV call keeps in flight; two are what a tile of more rows is wide.
  t.unit = max_rows <= 2 ? 4 : 2;
  while (t.unit > most) t.unit /= 2;
  t.unit = std::max(t.unit, unit);
  // At least four tiles a worker, so that one that is slowed down leaves work for the others to take, and as many chunks
  // for each. What a tile prepares of its rows pays from some sixteen panels on.
  const std::int64_t fair = std::int64_t{4} * ctx.workers / t.row_blocks(max_rows);
  const std::int64_t chunks = std::max({(w.panels + most - 1) / most, fair, std::int64_t{1}});
  const std::int64_t even = (chunks + ctx.workers - 1) / ctx.workers * ctx.workers;
  const std::int64_t least = std::clamp<std::int64_t>(most, t.unit, std::max(t.unit, 4));
  t.panel_chunks = static_cast<int>(std::min(even, std::max<std::int64_t>(1, w.panels / least)));
  return t;
}

Work product_work(const PackedWeight& w, double rows) {
  const DType in = activation_type(w.dtype);
  return {static_cast<double>(w.bytes()) + rows * (static_cast<double>(w.k) * activation_bytes(in) + 4.0 * static_cast<double>(w.n)),
          2.0 * rows * static_cast<double>(w.n) * static_cast<double>(w.k),
          in == DType::q8_act ? Arithmetic::int8 : in == DType::bf16 ? Arithmetic::bf16 : Arithmetic::f32};
}

std::string to_string(const ProductTiling& t) { return fmt::format("rows={} panels={} chunks={}", t.row_block, t.panel_block(), t.panel_chunks); }

std::string product_shape(const PackedWeight& w, int rows) { return fmt::format("{}x{} -> {} {}", rows, w.k, w.n, to_string(w.dtype)); }

}  // namespace millrace::ops
