#include "ops/rope.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

namespace millrace::ops {
namespace {

using tensor::DType;

class BoundAngles final : public RowOp {
 public:
  BoundAngles(std::vector<double> inverse_frequencies, double factor) : RowOp(Rows::tokens), frequencies_(std::move(inverse_frequencies)), factor_(factor) {}
  void execute_rows(const ExecContext& ctx, std::int64_t row, std::int64_t n) const noexcept override {
    const auto half = static_cast<std::int64_t>(frequencies_.size());
    for (std::int64_t r = row; r < row + n; ++r)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = ctx.at<std::int32_t>(0)[r] * frequencies_[static_cast<std::size_t>(i)];
        ctx.at<float>(1)[r * half + i] = static_cast<float>(std::cos(angle) * factor_);
        ctx.at<float>(2)[r * half + i] = static_cast<float>(std::sin(angle) * factor_);
      }
  }
  Work work(const StepArgs& step) const override {
    const double values = static_cast<double>(step.tokens) * static_cast<double>(frequencies_.size());
    return {values * 8, values * 40};
  }
  std::string shape(const StepArgs& step) const override { return fmt::format("{}x{}", step.tokens, frequencies_.size()); }

 private:
  std::vector<double> frequencies_;
  double factor_;
};

class Angles final : public Op {
 public:
  Angles(std::vector<double> inverse_frequencies, double factor) : frequencies_(std::move(inverse_frequencies)), factor_(factor) {}
  std::string_view name() const override { return "rope_angles"; }
  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    if (in[0].dtype != DType::i32) return error(Code::invalid_argument, "rope_angles of {}", to_string(in[0]));
    const ValueDesc out{DType::f32, {static_cast<std::int64_t>(frequencies_.size())}, in[0].rows};
    return std::vector{out, out};
  }
  Result<std::unique_ptr<BoundOp>> setup(const SetupContext&, std::span<const OpInput>) const override {
    return std::unique_ptr<BoundOp>(std::make_unique<BoundAngles>(frequencies_, factor_));
  }

 private:
  std::vector<double> frequencies_;
  double factor_;
};

class BoundRope final : public RowOp {
 public:
  BoundRope(const SetupContext& ctx, const tensor::Shape& row, std::int64_t half)
      : RowOp(Rows::tokens), kernel_(ctx.kernels.rope_f32), heads_(row[0]), head_dim_(row[1]), half_(half) {}
  void execute_rows(const ExecContext& ctx, std::int64_t row, std::int64_t n) const noexcept override {
    const std::int64_t width = heads_ * head_dim_;
    float* out = ctx.at<float>(3) + row * width;
    std::memcpy(out, ctx.at<float>(0) + row * width, static_cast<std::size_t>(n * width) * 4);
    kernel_({out, ctx.at<float>(1) + row * half_, ctx.at<float>(2) + row * half_, n, heads_, head_dim_, 2 * half_});
  }
  Work work(const StepArgs& step) const override {
    const double values = static_cast<double>(step.tokens) * static_cast<double>(heads_ * head_dim_);
    return {values * 8, values * 3};
  }
  std::string shape(const StepArgs& step) const override { return fmt::format("{}x{}x{}", step.tokens, heads_, head_dim_); }

 private:
  kernels::rope_f32_fn kernel_;
  std::int64_t heads_, head_dim_, half_;
};

class Rope final : public Op {
 public:
  std::string_view name() const override { return "rope"; }
  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    if (in[0].dtype != DType::f32 || in[0].row.rank() != 2 || in[1] != in[2] || 2 * in[1].row[0] > in[0].row[1])
      return error(Code::invalid_argument, "rope of {} with angles {}", to_string(in[0]), to_string(in[1]));
    return std::vector{in[0]};
  }
  Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const override {
    return std::unique_ptr<BoundOp>(std::make_unique<BoundRope>(ctx, in[0].desc.row, in[1].desc.row[0]));
  }
};

}  // namespace

std::unique_ptr<Op> make_rope_angles(std::vector<double> inverse_frequencies, double attention_factor) {
  return std::make_unique<Angles>(std::move(inverse_frequencies), attention_factor);
}
std::unique_ptr<Op> make_rope() { return std::make_unique<Rope>(); }

}  // namespace millrace::ops
