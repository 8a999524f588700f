#include "ops/linear.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace millrace::ops {
namespace {

using tensor::DType;

/// Work split of one linear: a tile is row_block rows x panel_block panels. Tiles of one column chunk follow each
/// other, so that a worker keeps its weights in L2 while the rows stream by.
struct LinearTiling {
  int row_block;
  int panel_block;
  int panel_chunks;
};

/// nullptr for float formats.
kernels::gemm_q4_0_fn int_kernel(const kernels::KernelTable& kernels, DType weights) {
  switch (weights) {
#define FORMAT(name, ...) \
  case DType::name: return kernels.gemm_##name;
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
    default: return nullptr;
  }
}

LinearTiling choose_tiling(const PackedWeight& w, int max_rows, const SetupContext& ctx) {
  // Half of L2 for weights; the rest for the rows' activations and the output tile.
  const std::int64_t panels_in_l2 = std::max<std::int64_t>(1, ctx.l2_bytes / 2 / w.panel_bytes);
  LinearTiling t{};
  t.row_block = std::min(max_rows, 128);
  // At least four tiles a worker, so that one that is slowed down leaves work for the others to take; but not less than
  // four panels, which one GEMV call keeps in flight. What a tile prepares of its rows pays from some sixteen panels on.
  const std::int64_t row_blocks = (max_rows + t.row_block - 1) / t.row_block;
  const std::int64_t chunks = std::max<std::int64_t>(1, std::int64_t{4} * ctx.workers / row_blocks);
  const std::int64_t fair = std::max<std::int64_t>(4, (w.panels + chunks - 1) / chunks);
  t.panel_block = static_cast<int>(std::clamp<std::int64_t>(std::min(panels_in_l2, fair), 1, w.panels));
  t.panel_chunks = static_cast<int>((w.panels + t.panel_block - 1) / t.panel_block);
  return t;
}

class BoundLinear final : public BoundOp {
 public:
  BoundLinear(const PackedWeight& w, const SetupContext& ctx, Rows in_rows, Rows out_rows)
      : w_(w), kernels_(ctx.kernels), int_kernel_(int_kernel(ctx.kernels, w.dtype)), tiling_(choose_tiling(w, ctx.max_rows(out_rows), ctx)), in_max_rows_(ctx.max_rows(in_rows)), out_rows_(out_rows) {}

  void execute(const ExecContext& ctx) const noexcept override {
    const int rows = ctx.step.rows(out_rows_);
    const int row_blocks = (rows + tiling_.row_block - 1) / tiling_.row_block;
    ctx.worker.for_tiles(row_blocks * tiling_.panel_chunks, [&](int tile) {
      const int row = tile % row_blocks * tiling_.row_block;
      const std::int64_t panel = std::int64_t{tile / row_blocks} * tiling_.panel_block;
      run_tile(ctx, row, std::min(tiling_.row_block, rows - row), panel, std::min<std::int64_t>(tiling_.panel_block, w_.panels - panel));
    });
  }

  Work work(const StepArgs& step) const override {
    const double rows = step.rows(out_rows_);
    const DType in = activation_type(w_.dtype);
    const double in_bytes = in == DType::q8_act ? 1.25 : in == DType::bf16 ? 2 : 4;
    return {static_cast<double>(w_.bytes()) + rows * (static_cast<double>(w_.k) * in_bytes + 4.0 * static_cast<double>(w_.n)),
            2.0 * rows * static_cast<double>(w_.n) * static_cast<double>(w_.k),
            in == DType::q8_act ? Arithmetic::int8 : in == DType::bf16 ? Arithmetic::bf16 : Arithmetic::f32};
  }

  std::string shape(const StepArgs& step) const override {
    return fmt::format("{}x{} -> {} {}", step.rows(out_rows_), w_.k, w_.n, to_string(w_.dtype));
  }

  std::string tiling() const override {
    return fmt::format("rows={} panels={} chunks={}", tiling_.row_block, tiling_.panel_block, tiling_.panel_chunks);
  }

 private:
  void run_tile(const ExecContext& ctx, std::int64_t row, std::int64_t rows, std::int64_t panel, std::int64_t panels) const {
    const std::int64_t first = panel * w_.panel_rows, n = std::min(w_.n - first, panels * w_.panel_rows), k = w_.k;
    const auto* w = reinterpret_cast<const std::uint8_t*>(w_.panel(panel));
    float* c = ctx.at<float>(1) + row * w_.n + first;
    switch (w_.dtype) {
      case DType::f32:
      case DType::f16: {
        const kernels::GemmFloatArgs args{ctx.at<float>(0) + row * k, k, rows, k, w, w_.panel_bytes, panels, c, w_.n, n};
        return (w_.dtype == DType::f32 ? kernels_.gemm_f32 : kernels_.gemm_f16)(args);
      }
      case DType::bf16:
        return kernels_.gemm_bf16({ctx.at<std::uint16_t>(0) + row * k, k, rows, k, w, w_.panel_bytes, panels, c, w_.n, n});
      default: {
        const Q8Rows x = q8_rows(ctx.io[0], in_max_rows_, k);
        const std::int64_t blocks = k / 32;
        const kernels::GemmIntArgs args{x.q + row * k, x.scale + row * blocks, x.sum + row * blocks * 2, rows, blocks, w, w_.panel_bytes, panels, c, w_.n, n};
        return int_kernel_(args);
      }
    }
  }

  PackedWeight w_;
  const kernels::KernelTable& kernels_;
  kernels::gemm_q4_0_fn int_kernel_;
  LinearTiling tiling_;
  int in_max_rows_;
  Rows out_rows_;
};

class Linear final : public Op {
 public:
  explicit Linear(Rows out_rows) : out_rows_(out_rows) {}
  std::string_view name() const override { return "linear"; }

  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    const ValueDesc &x = in[0], &w = in[1];
    if (w.row.rank() != 2 || x.row.rank() != 1 || x.row[0] != w.row[1])
      return error(Code::invalid_argument, "linear of {} with weight {}", to_string(x), to_string(w));
    if (x.dtype != activation_type(w.dtype))
      return error(Code::invalid_argument, "linear with weight {} multiplies {}, got {}", to_string(w), to_string(activation_type(w.dtype)), to_string(x));
    return std::vector{ValueDesc{DType::f32, {w.row[0]}, out_rows_}};
  }

  Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const override {
    MILLRACE_CHECK(in[1].weight && !in[1].weight->is_vector(), "linear without a matrix");
    return std::unique_ptr<BoundOp>(std::make_unique<BoundLinear>(*in[1].weight, ctx, in[0].desc.rows, out_rows_));
  }

 private:
  Rows out_rows_;
};

class BoundConvert final : public RowOp {
 public:
  BoundConvert(const SetupContext& ctx, const ValueDesc& x, DType to)
      : RowOp(x.rows), kernels_(ctx.kernels), k_(x.row.last()), max_rows_(ctx.max_rows(x.rows)), to_(to) {}

  void execute_rows(const ExecContext& ctx, std::int64_t row, std::int64_t n) const noexcept override {
    const float* x = ctx.at<float>(0) + row * k_;
    if (to_ == DType::bf16) return kernels_.to_bf16({x, ctx.at<std::uint16_t>(1) + row * k_, n * k_});
    const Q8Rows out = q8_rows(ctx.io[1], max_rows_, k_);
    kernels_.quantize_q8({x, out.q + row * k_, out.scale + row * (k_ / 32), out.sum + row * (k_ / 32) * 2, n, k_});
  }

  Work work(const StepArgs& step) const override {
    const double values = static_cast<double>(step.rows(rows())) * static_cast<double>(k_);
    return {values * (to_ == DType::bf16 ? 6.0 : 5.25), values * 2};
  }
  std::string shape(const StepArgs& step) const override { return fmt::format("{}x{}", step.rows(rows()), k_); }

 private:
  const kernels::KernelTable& kernels_;
  std::int64_t k_;
  int max_rows_;
  DType to_;
};

class Convert final : public Op {
 public:
  explicit Convert(DType to) : to_(to) {}
  std::string_view name() const override { return to_ == DType::bf16 ? "to_bf16" : "quantize"; }
  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    const ValueDesc& x = in[0];
    if (x.dtype != DType::f32 || x.row.rank() != 1 || (to_ == DType::q8_act && x.row[0] % 32 != 0))
      return error(Code::invalid_argument, "{} of {}", name(), to_string(x));
    return std::vector{ValueDesc{to_, x.row, x.rows}};
  }
  Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const override {
    return std::unique_ptr<BoundOp>(std::make_unique<BoundConvert>(ctx, in[0].desc, to_));
  }

 private:
  DType to_;
};

}  // namespace

std::unique_ptr<Op> make_linear(Rows out_rows) { return std::make_unique<Linear>(out_rows); }
std::unique_ptr<Op> make_convert(DType to) { return std::make_unique<Convert>(to); }

}  // namespace millrace::ops
