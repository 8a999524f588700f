#pragma once

// Op: what to compute (immutable, part of a graph). BoundOp: how, on this machine, for these sizes (part of a plan).
// An Op cannot run and a BoundOp cannot fail to be ready, so "setup before execute" needs no rule.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/core_group.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_int8.h"
#include "ops/packed_weight.h"
#include "ops/step.h"
#include "tensor/shape.h"

namespace millrace::ops {

/// What a value is: `rows` rows of shape `row`. A weight has Rows::fixed and its whole shape in `row`.
struct ValueDesc {
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape row;
  Rows rows = Rows::tokens;

  std::size_t row_bytes() const;  // dense
  friend bool operator==(const ValueDesc&, const ValueDesc&) = default;
};
std::string to_string(const ValueDesc& desc);

/// The keys and values of one layer in the paged pool: what cache ops bind to. Strides are bytes.
struct KvLayer {
  std::byte* k = nullptr;  // block b of KV head h at k + b * block_stride + h * head_stride
  std::byte* v = nullptr;
  std::int64_t block_stride = 0;
  std::int64_t head_stride = 0;
  int block_tokens = 0;
  tensor::DType dtype = tensor::DType::f16;
};

/// Bytes of the keys, or the values, of one token and head, scales included.
constexpr std::int64_t kv_vector_bytes(tensor::DType format, std::int64_t head_dim) {
  return head_dim * tensor::layout_of(format).bytes + (format == tensor::DType::int8_kv ? kernels::kKvScaleBytes : 0);
}

/// What setup may look at: this machine and the largest step of the plan.
struct SetupContext {
  const kernels::KernelTable& kernels;
  int workers = 1;
  std::int64_t l2_bytes = 512 << 10;
  int max_tokens = 1, max_outputs = 1, max_logits = 1;  // the plan's bucket
  int max_positions = 1;                                 // longest context
  std::span<const KvLayer> kv_layers;

  int max_rows(Rows r) const { return r == Rows::tokens ? max_tokens : r == Rows::outputs ? max_outputs : r == Rows::logits ? max_logits : 0; }
};

/// One input at setup: its type, and the packed weight where it is one.
struct OpInput {
  ValueDesc desc;
  const PackedWeight* weight = nullptr;
};

/// All that execute() needs. `io` points to the inputs that are not weights, then to the outputs, in the Op's order.
struct ExecContext {
  const StepArgs& step;
  std::span<std::byte* const> io;
  device::Worker& worker;

  template <class T>
  T* at(int i) const { return reinterpret_cast<T*>(io[static_cast<std::size_t>(i)]); }
};

/// What a launch computes in: which of the machine's roofs bounds it.
enum class Arithmetic : std::uint8_t { f32, bf16, int8 };

/// Bytes moved to and from memory beyond the caches' reuse (weights and KV once, activations in and out) and
/// floating-point operations, a multiply-add counting two.
struct Work {
  double bytes = 0;
  double flops = 0;
  Arithmetic arithmetic = Arithmetic::f32;
};

class RowOp;

class BoundOp {
 public:
  virtual ~BoundOp() = default;

  /// This op as one whose output row r depends on row r of its inputs only; null where that is not so.
  virtual const RowOp* by_rows() const { return nullptr; }

  /// Called by every worker of the group. No allocation, no lookup, no failure. Rows may be fewer than at setup.
  virtual void execute(const ExecContext& ctx) const noexcept = 0;

  /// Private scratch that each worker must have.
  virtual std::size_t scratch_bytes() const { return 0; }

  /// Memory that all workers share while it runs: the last pointer of io, after the outputs. 0: none, and no pointer.
  virtual std::size_t shared_bytes() const { return 0; }

  virtual Work work(const StepArgs& step) const = 0;

  /// The sizes of that work, for profiles: "512x576 -> 1536 q4_0".
  virtual std::string shape(const StepArgs& step) const = 0;

  /// The work split, as one line: "tiles=16 rows=128 panels=18".
  virtual std::string tiling() const { return ""; }
};

/// An op that treats each row by itself: a plan runs several of them on the same rows one after the other, without a
/// barrier in between and with the rows in the cache.
class RowOp : public BoundOp {
 public:
  explicit RowOp(Rows rows) : rows_(rows) {}
  Rows rows() const { return rows_; }

  /// Rows [row, row + n), by one worker.
  virtual void execute_rows(const ExecContext& ctx, std::int64_t row, std::int64_t n) const noexcept = 0;

  const RowOp* by_rows() const override { return this; }
  void execute(const ExecContext& ctx) const noexcept final;

  /// Rows of one tile. A decode step has few rows: one row a tile would only move cache lines between cores.
  static int tile_rows(int rows) { return rows >= 128 ? 16 : 4; }

 private:
  Rows rows_;
};

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;

  /// The layer whose KV cache it reads or writes; -1: none. Such ops of one layer keep their order.
  virtual int kv_layer() const { return -1; }

  /// Types of the outputs. Errors: invalid_argument naming both shapes.
  virtual Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const = 0;

  /// Chooses kernels and tile sizes for steps of at most ctx.max_*. Errors: unsupported, when no kernel takes these types.
  virtual Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const = 0;
};

/// Sub-arrays of a q8_act value (kernels/params.h, QuantizeArgs), each dense over the rows of the step.
struct Q8Rows {
  std::int8_t* q;
  float* scale;
  std::int16_t* sum;  // two a block
};
Q8Rows q8_rows(std::byte* data, std::int64_t max_rows, std::int64_t k);

}  // namespace millrace::ops
