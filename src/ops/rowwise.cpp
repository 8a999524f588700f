#include "ops/rowwise.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "base/check.h"

namespace millrace::ops {
namespace {

using tensor::DType;

/// What makes one rowwise op: how it types and what it does to rows [row, row + n). Everything is captured at setup.
using RowsBody = std::function<void(const ExecContext&, std::int64_t row, std::int64_t n)>;

class BoundRowwise final : public RowOp {
 public:
  BoundRowwise(const ValueDesc& out, RowsBody body, Work per_row, bool own_rows_only)
      : RowOp(out.rows), width_(out.row.elements()), body_(std::move(body)), per_row_(per_row), own_rows_only_(own_rows_only) {}

  const RowOp* by_rows() const override { return own_rows_only_ ? this : nullptr; }
  void execute_rows(const ExecContext& ctx, std::int64_t row, std::int64_t n) const noexcept override { body_(ctx, row, n); }
  Work work(const StepArgs& step) const override {
    const double rows = step.rows(this->rows());
    return {rows * per_row_.bytes, rows * per_row_.flops};
  }
  std::string shape(const StepArgs& step) const override { return fmt::format("{}x{}", step.rows(rows()), width_); }

 private:
  std::int64_t width_;
  RowsBody body_;
  Work per_row_;
  bool own_rows_only_;
};

using Infer = std::function<std::optional<ValueDesc>(std::span<const ValueDesc>)>;
using Bind = std::function<RowsBody(const SetupContext&, std::span<const OpInput>)>;

class Rowwise final : public Op {
 public:
  Rowwise(std::string_view name, Infer infer, Bind bind, double flops_per_value, bool own_rows_only = true)
      : name_(name), infer_(std::move(infer)), bind_(std::move(bind)), flops_per_value_(flops_per_value), own_rows_only_(own_rows_only) {}

  std::string_view name() const override { return name_; }

  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    if (auto out = infer_(in)) return std::vector{*out};
    std::string types;
    for (const ValueDesc& d : in) types += (types.empty() ? "" : " and ") + to_string(d);
    return error(Code::invalid_argument, "{} of {}", name_, types);
  }

  Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const override {
    std::vector<ValueDesc> types;
    double bytes = 0;
    for (const OpInput& i : in) {
      types.push_back(i.desc);
      if (!i.weight) bytes += static_cast<double>(i.desc.row_bytes());
    }
    const ValueDesc out = *infer_(types);
    bytes += static_cast<double>(out.row_bytes());
    return std::unique_ptr<BoundOp>(std::make_unique<BoundRowwise>(
        out, bind_(ctx, in), Work{bytes, flops_per_value_ * static_cast<double>(out.row.elements())}, own_rows_only_));
  }

 private:
  std::string_view name_;
  Infer infer_;
  Bind bind_;
  double flops_per_value_;
  bool own_rows_only_;
};

bool same_f32(const ValueDesc& a, const ValueDesc& b) { return a == b && a.dtype == DType::f32 && a.rows != Rows::fixed; }
bool is_vector_of(const ValueDesc& w, std::int64_t n) { return w.rows == Rows::fixed && w.row.rank() == 1 && w.row[0] == n; }

}  // namespace

std::unique_ptr<Op> make_embed() {
  return std::make_unique<Rowwise>(
      "embed",
      [](std::span<const ValueDesc> in) -> std::optional<ValueDesc> {
        if (in[0].dtype != DType::i32 || in[1].row.rank() != 2) return std::nullopt;
        return ValueDesc{DType::f32, {in[1].row[1]}, in[0].rows};
      },
      [](const SetupContext&, std::span<const OpInput> in) -> RowsBody {
        const PackedWeight table = *in[1].weight;
        return [table](const ExecContext& ctx, std::int64_t row, std::int64_t n) {
          for (std::int64_t r = row; r < row + n; ++r) unpack_row(table, ctx.at<TokenId>(0)[r], ctx.at<float>(1) + r * table.k);
        };
      },
      1);
}

std::unique_ptr<Op> make_gather_rows() {
  return std::make_unique<Rowwise>(
      "gather_rows",
      [](std::span<const ValueDesc> in) -> std::optional<ValueDesc> {
        if (in[0].dtype != DType::f32 || in[1].dtype != DType::i32) return std::nullopt;
        return ValueDesc{DType::f32, in[0].row, in[1].rows};
      },
      [](const SetupContext&, std::span<const OpInput> in) -> RowsBody {
        const std::int64_t width = in[0].desc.row.elements();
        return [width](const ExecContext& ctx, std::int64_t row, std::int64_t n) {
          for (std::int64_t r = row; r < row + n; ++r)
            std::memcpy(ctx.at<float>(2) + r * width, ctx.at<float>(0) + ctx.at<std::int32_t>(1)[r] * width, static_cast<std::size_t>(width) * 4);
        };
      },
      0, /*own_rows_only=*/false);
}

std::unique_ptr<Op> make_rms_norm(float eps) {
  return std::make_unique<Rowwise>(
      "rms_norm",
      [](std::span<const ValueDesc> in) -> std::optional<ValueDesc> {
        if (in[0].dtype != DType::f32 || !is_vector_of(in[1], in[0].row.last())) return std::nullopt;
        return in[0];
      },
      [eps](const SetupContext& ctx, std::span<const OpInput> in) -> RowsBody {
        const std::int64_t dim = in[0].desc.row.last(), per_row = in[0].desc.row.elements() / dim;
        return [kernel = ctx.kernels.rms_norm_f32, gain = in[1].weight->vector(), dim, per_row, eps](const ExecContext& c, std::int64_t row, std::int64_t n) {
          kernel({c.at<float>(0) + row * per_row * dim, gain, c.at<float>(1) + row * per_row * dim, n * per_row, dim, eps});
        };
      },
      4);
}

std::unique_ptr<Op> make_add() {
  return std::make_unique<Rowwise>(
      "add", [](std::span<const ValueDesc> in) -> std::optional<ValueDesc> { return same_f32(in[0], in[1]) ? std::optional(in[0]) : std::nullopt; },
      [](const SetupContext& ctx, std::span<const OpInput> in) -> RowsBody {
        return [kernel = ctx.kernels.add_f32, width = in[0].desc.row.elements()](const ExecContext& c, std::int64_t row, std::int64_t n) {
          kernel({c.at<float>(0) + row * width, c.at<float>(1) + row * width, c.at<float>(2) + row * width, n * width});
        };
      },
      1);
}

std::unique_ptr<Op> make_add_bias() {
  return std::make_unique<Rowwise>(
      "add_bias",
      [](std::span<const ValueDesc> in) -> std::optional<ValueDesc> {
        if (in[0].dtype != DType::f32 || !is_vector_of(in[1], in[0].row.elements())) return std::nullopt;
        return in[0];
      },
      [](const SetupContext& ctx, std::span<const OpInput> in) -> RowsBody {
        return [kernel = ctx.kernels.add_f32, bias = in[1].weight->vector(), width = in[0].desc.row.elements()](const ExecContext& c, std::int64_t row, std::int64_t n) {
          for (std::int64_t r = row; r < row + n; ++r) kernel({c.at<float>(0) + r * width, bias, c.at<float>(1) + r * width, width});
        };
      },
      1);
}

std::unique_ptr<Op> make_swiglu() {
  return std::make_unique<Rowwise>(
      "swiglu", [](std::span<const ValueDesc> in) -> std::optional<ValueDesc> { return same_f32(in[0], in[1]) ? std::optional(in[0]) : std::nullopt; },
      [](const SetupContext& ctx, std::span<const OpInput> in) -> RowsBody {
        return [kernel = ctx.kernels.swiglu_f32, width = in[0].desc.row.elements()](const ExecContext& c, std::int64_t row, std::int64_t n) {
          kernel({c.at<float>(0) + row * width, c.at<float>(1) + row * width, c.at<float>(2) + row * width, n * width});
        };
      },
      20);
}

}  // namespace millrace::ops
