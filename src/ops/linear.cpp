#include "ops/linear.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "ops/activations.h"
#include "ops/panel_product.h"

namespace millrace::ops {
namespace {

using tensor::DType;

class BoundLinear final : public BoundOp {
 public:
  BoundLinear(const PackedWeight& w, const SetupContext& ctx, Rows in_rows, Rows out_rows)
      : product_(w, ctx.kernels, ctx.max_rows(in_rows)), tiling_(choose_tiling(w, ctx.max_rows(out_rows), ctx, 1, w.panels)), out_rows_(out_rows) {}

  void execute(const ExecContext& ctx) const noexcept override {
    const PackedWeight& w = product_.weight();
    tiling_.for_tiles(ctx.worker, ctx.step.rows(out_rows_), [&](std::int64_t row, std::int64_t rows, std::int64_t panel, std::int64_t panels) {
      product_.run(ctx.io[0], row, rows, panel, panels, ctx.at<float>(1) + row * w.n + panel * w.panel_rows, w.n);
    });
  }

  Work work(const StepArgs& step) const override { return product_work(product_.weight(), step.rows(out_rows_)); }
  std::string shape(const StepArgs& step) const override { return product_shape(product_.weight(), step.rows(out_rows_)); }
  std::string tiling() const override { return to_string(tiling_); }

 private:
  PanelProduct product_;
  ProductTiling tiling_;
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

/// Both products of a tile of columns go to scratch, and from there through silu, product and rounding while they are in
/// the cache: what is written is what the next matrix reads.
class BoundGatedLinear final : public BoundOp {
 public:
  BoundGatedLinear(const PackedWeight& gate, const PackedWeight& up, DType to, const SetupContext& ctx, Rows rows)
      : gate_(gate, ctx.kernels, ctx.max_rows(rows)), up_(up, ctx.kernels, ctx.max_rows(rows)), kernels_(ctx.kernels), to_(to), rows_(rows),
        max_rows_(ctx.max_rows(rows)), tiling_(choose_tiling(gate, max_rows_, ctx, std::max(1, 32 / gate.panel_rows), most_panels(gate, max_rows_, ctx))) {}

  void execute(const ExecContext& ctx) const noexcept override {
    tiling_.for_tiles(ctx.worker, ctx.step.rows(rows_),
                      [&](std::int64_t row, std::int64_t rows, std::int64_t panel, std::int64_t panels) { run_tile(ctx, row, rows, panel, panels); });
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(2 * tiling_.row_block * columns() * 4); }

  Work work(const StepArgs& step) const override {
    const double rows = step.rows(rows_), n = static_cast<double>(gate_.weight().n);
    const Work gate = product_work(gate_.weight(), rows), up = product_work(up_.weight(), rows);
    // The products stay in the cache: two f32 less.
    return {gate.bytes + up.bytes + rows * n * (activation_bytes(to_) - 8), gate.flops + up.flops, gate.arithmetic};
  }
  std::string shape(const StepArgs& step) const override {
    return product_shape(gate_.weight(), step.rows(rows_)) + " x " + std::string(to_string(up_.weight().dtype));
  }
  std::string tiling() const override { return to_string(tiling_); }

 private:
  std::int64_t columns() const { return tiling_.panel_block() * gate_.weight().panel_rows; }

  /// So that both products of a tile take a quarter of L2.
  static std::int64_t most_panels(const PackedWeight& gate, int max_rows, const SetupContext& ctx) {
    return std::max<std::int64_t>(4, ctx.l2_bytes / 4 / (std::int64_t{8} * std::min(max_rows, kMostTileRows) * gate.panel_rows));
  }

  void run_tile(const ExecContext& ctx, std::int64_t row, std::int64_t rows, std::int64_t panel, std::int64_t panels) const {
    const std::int64_t width = columns(), count = gate_.columns(panel, panels), first = panel * gate_.weight().panel_rows, n = gate_.weight().n;
    float* gate = reinterpret_cast<float*>(ctx.worker.scratch().data());
    float* up = gate + tiling_.row_block * width;
    gate_.run(ctx.io[0], row, rows, panel, panels, gate, width);
    up_.run(ctx.io[0], row, rows, panel, panels, up, width);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* g = gate + r * width;
      kernels_.swiglu_f32({g, up + r * width, g, count});
      write_activations(kernels_, to_, g, ctx.io[1], max_rows_, n, (row + r) * n + first, count);
    }
  }

  PanelProduct gate_, up_;
  const kernels::KernelTable& kernels_;
  DType to_;
  Rows rows_;
  int max_rows_;
  ProductTiling tiling_;
};

class GatedLinear final : public Op {
 public:
  explicit GatedLinear(DType to) : to_(to) {}
  std::string_view name() const override { return "gated_linear"; }

  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    const ValueDesc &x = in[0], &gate = in[1], &up = in[2];
    if (gate.row.rank() != 2 || gate.row != up.row || x.row.rank() != 1 || x.row[0] != gate.row[1] || (to_ == DType::q8_act && gate.row[0] % 32 != 0))
      return error(Code::invalid_argument, "gated_linear of {} with weights {} and {}", to_string(x), to_string(gate), to_string(up));
    if (x.dtype != activation_type(gate.dtype) || x.dtype != activation_type(up.dtype))
      return error(Code::invalid_argument, "gated_linear with weights {} and {} cannot multiply {}", to_string(gate), to_string(up), to_string(x));
    return std::vector{ValueDesc{to_, {gate.row[0]}, x.rows}};
  }

  Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const override {
    MILLRACE_CHECK(in[1].weight && in[2].weight && !in[1].weight->is_vector() && !in[2].weight->is_vector(), "gated_linear without matrices");
    return std::unique_ptr<BoundOp>(std::make_unique<BoundGatedLinear>(*in[1].weight, *in[2].weight, to_, ctx, in[0].desc.rows));
  }

 private:
  DType to_;
};

class BoundConvert final : public RowOp {
 public:
  BoundConvert(const SetupContext& ctx, const ValueDesc& x, DType to)
      : RowOp(x.rows), kernels_(ctx.kernels), k_(x.row.last()), max_rows_(ctx.max_rows(x.rows)), to_(to) {}

  void execute_rows(const ExecContext& ctx, std::int64_t row, std::int64_t n) const noexcept override {
    write_activations(kernels_, to_, ctx.at<float>(0) + row * k_, ctx.io[1], max_rows_, k_, row * k_, n * k_);
  }

  Work work(const StepArgs& step) const override {
    const double values = static_cast<double>(step.rows(rows())) * static_cast<double>(k_);
    return {values * (4 + activation_bytes(to_)), values * 2};
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
std::unique_ptr<Op> make_gated_linear(DType to) { return std::make_unique<GatedLinear>(to); }
std::unique_ptr<Op> make_convert(DType to) { return std::make_unique<Convert>(to); }

}  // namespace millrace::ops
