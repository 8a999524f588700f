#include "ops/attention.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "ops/activations.h"

namespace millrace::ops {
namespace {

using kernels::kKeySplit;
using kernels::kKeyTile;
using tensor::DType;

/// The slice that holds `index`, where `first` names what the slices start with: rows or tiles, in rising order.
const SliceArgs* slice_of(std::span<const SliceArgs> slices, int SliceArgs::* first, int index) {
  return &*(std::ranges::upper_bound(slices, index, {}, first) - 1);
}

kernels::kv_write_f32_fn write_kernel(const kernels::KernelTable& table, DType format) {
  switch (format) {
    case DType::f32: return table.kv_write_f32;
    case DType::f16: return table.kv_write_f16;
    case DType::bf16: return table.kv_write_bf16;
    case DType::int8_kv: return table.kv_write_int8;
    default: MILLRACE_CHECK(false, std::string(to_string(format)) + " as the format of a KV cache");
  }
  return nullptr;
}

kernels::attend_f32_fn attend_kernel(const kernels::KernelTable& table, DType format) {
  switch (format) {
    case DType::f32: return table.attend_f32;
    case DType::f16: return table.attend_f16;
    case DType::bf16: return table.attend_bf16;
    case DType::int8_kv: return table.attend_int8;
    default: MILLRACE_CHECK(false, std::string(to_string(format)) + " as the format of a KV cache");
  }
  return nullptr;
}

class BoundCacheWrite final : public RowOp {
 public:
  BoundCacheWrite(const SetupContext& ctx, const KvLayer& kv, const tensor::Shape& row)
      : RowOp(Rows::tokens), kv_(kv), kv_heads_(row[0]), head_dim_(row[1]), kernel_(write_kernel(ctx.kernels, kv.dtype)) {}
  void execute_rows(const ExecContext& ctx, std::int64_t row, std::int64_t n) const noexcept override {
    const SliceArgs* slice = slice_of(ctx.step.slices, &SliceArgs::row, static_cast<int>(row));
    for (const std::int64_t end = row + n; row < end; ++slice) {
      const std::int64_t rows = std::min<std::int64_t>(end, slice->row + slice->count) - row;
      write(ctx, *slice, row, rows);
      row += rows;
    }
  }
  Work work(const StepArgs& step) const override {
    return {2.0 * step.tokens * static_cast<double>(kv_heads_ * (4 * head_dim_ + kv_vector_bytes(kv_.dtype, head_dim_))), 0};
  }
  std::string shape(const StepArgs& step) const override {
    return fmt::format("{}x{}x{} {}", step.tokens, kv_heads_, head_dim_, to_string(kv_.dtype));
  }

 private:
  void write(const ExecContext& ctx, const SliceArgs& slice, std::int64_t row, std::int64_t rows) const {
    const std::int64_t width = kv_heads_ * head_dim_;
    for (std::int64_t head = 0; head < kv_heads_; ++head) {
      const std::int64_t offset = row * width + head * head_dim_;
      kernel_({ctx.at<float>(0) + offset, ctx.at<float>(1) + offset, width, rows, slice.first + row - slice.row, head_dim_,
               reinterpret_cast<std::uint8_t*>(kv_.k + head * kv_.head_stride), reinterpret_cast<std::uint8_t*>(kv_.v + head * kv_.head_stride),
               slice.table, kv_.block_tokens, kv_.block_stride});
    }
  }

  KvLayer kv_;
  std::int64_t kv_heads_, head_dim_;
  kernels::kv_write_f32_fn kernel_;
};

class CacheWrite final : public Op {
 public:
  explicit CacheWrite(int layer) : layer_(layer) {}
  std::string_view name() const override { return "cache_write"; }
  int kv_layer() const override { return layer_; }
  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    if (in[0] != in[1] || in[0].dtype != DType::f32 || in[0].row.rank() != 2 || in[0].rows != Rows::tokens)
      return error(Code::invalid_argument, "cache_write of {} and {}", to_string(in[0]), to_string(in[1]));
    return std::vector<ValueDesc>{};
  }
  Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const override {
    return std::unique_ptr<BoundOp>(std::make_unique<BoundCacheWrite>(ctx, ctx.kv_layers[static_cast<std::size_t>(layer_)], in[0].desc.row));
  }

 private:
  int layer_;
};

class BoundAttend final : public BoundOp {
 public:
  BoundAttend(const SetupContext& ctx, const KvLayer& kv, const ValueDesc& q, int kv_heads, float scale, int window, DType to)
      : kernels_(ctx.kernels), kv_(kv), to_(to), max_rows_(ctx.max_rows(q.rows)), rows_(q.rows), kv_heads_(kv_heads), group_(static_cast<int>(q.row[0]) / kv_heads), head_dim_(q.row[1]), scale_(scale), window_(window),
        tile_rows_(query_tile_rows(group_)), max_splits_((ctx.max_positions + kKeySplit - 1) / kKeySplit), few_tiles_(4 * ctx.workers),
        kernel_(attend_kernel(ctx.kernels, kv.dtype)) {}

  void execute(const ExecContext& ctx) const noexcept override {
    const bool all = rows_ == Rows::tokens;
    const std::span<const SliceArgs> slices = all ? ctx.step.slices : ctx.step.output_slices;
    const int tiles = all ? ctx.step.attend_tiles : ctx.step.output_attend_tiles;
    const auto tile_at = [&](int i) -> Tile {
      const int index = i / kv_heads_;  // the heads of a tile are neighbours in memory
      const SliceArgs& s = *slice_of(slices, &SliceArgs::attend_tile, index);
      const int begin = (index - s.attend_tile) * tile_rows_;
      return {s, i % kv_heads_, begin, std::min(tile_rows_, s.count - begin)};
    };
    int most_keys = 0;
    for (const SliceArgs& s : slices) most_keys = std::max(most_keys, s.first + s.count);
    const int splits = splits_of(most_keys);
    if (splits > 1 && tiles * kv_heads_ < few_tiles_ && ctx.step.rows(rows_) == tiles) return execute_splits(ctx, tiles * kv_heads_, splits, tile_at);
    ctx.worker.for_tiles(tiles * kv_heads_, [&](int i) { run_tile(ctx, tile_at(i)); });
  }

  /// The partial results of few_tiles_ rows, for execute_splits.
  std::size_t shared_bytes() const override { return max_splits_ > 1 ? static_cast<std::size_t>(few_tiles_ * partials_floats(max_splits_, group_) * 4) : 0; }

  std::size_t scratch_bytes() const override {
    const std::int64_t vectors = std::int64_t{tile_rows_} * group_;
    return static_cast<std::size_t>((kernel_scratch() + partials_floats(max_splits_, vectors) + group_ * head_dim_) * 4 + 64);
  }

  Work work(const StepArgs& step) const override {
    Work out;
    const double heads = kv_heads_ * group_, d = static_cast<double>(head_dim_);
    for (const SliceArgs& s : rows_ == Rows::tokens ? step.slices : step.output_slices) {
      const double keys = s.count * (s.first + (s.count + 1) / 2.0);  // summed over the rows
      out.flops += 4 * heads * d * keys;
      out.bytes += 2.0 * kv_heads_ * static_cast<double>(kv_vector_bytes(kv_.dtype, head_dim_)) * (s.first + s.count) + 8.0 * s.count * heads * d;
    }
    return out;
  }

  std::string shape(const StepArgs& step) const override {
    int keys = 0;
    for (const SliceArgs& s : rows_ == Rows::tokens ? step.slices : step.output_slices) keys = std::max(keys, s.first + s.count);
    return fmt::format("{}x{}x{}, {} keys x{} {}", step.rows(rows_), kv_heads_ * group_, head_dim_, keys, kv_heads_, to_string(kv_.dtype));
  }

  std::string tiling() const override { return fmt::format("rows={} heads={} keys={}/{}", tile_rows_, group_, kKeyTile, kKeySplit); }

 private:
  /// In floats.
  std::int64_t kernel_scratch() const { return kernels::attend_scratch_floats(std::int64_t{tile_rows_} * group_, head_dim_); }

  /// Rows [begin, begin + rows) of a slice, the query heads of one KV head.
  struct Tile {
    const SliceArgs& slice;
    int head, begin, rows;
  };

  /// Partial results of one tile: m and l [splits][vectors], o [splits][vectors][head_dim].
  struct Partials {
    float *m, *l, *o;
    std::int64_t vectors;
  };
  std::int64_t partials_floats(std::int64_t splits, std::int64_t vectors) const { return splits * vectors * (2 + head_dim_); }
  static Partials partials_at(float* at, std::int64_t splits, std::int64_t vectors) { return {at, at + splits * vectors, at + 2 * splits * vectors, vectors}; }
  static int splits_of(int keys) { return (keys + kKeySplit - 1) / kKeySplit; }
  static float* scratch_of(const ExecContext& ctx) { return reinterpret_cast<float*>(ctx.worker.scratch().data()); }

  std::int64_t q_stride() const { return std::int64_t{kv_heads_} * group_ * head_dim_; }
  std::int64_t offset_of(const Tile& t) const { return (t.slice.row + t.begin) * q_stride() + std::int64_t{t.head} * group_ * head_dim_; }

  void attend_split(const ExecContext& ctx, const Tile& t, int split, const Partials& p) const {
    const int first = t.slice.first + t.begin, keys = first + t.rows;
    kernel_({ctx.at<float>(0) + offset_of(t), q_stride(), t.rows, group_, head_dim_, first, std::int64_t{split} * kKeySplit,
             std::min<std::int64_t>((split + 1) * kKeySplit, keys), window_, scale_, reinterpret_cast<const std::uint8_t*>(kv_.k + t.head * kv_.head_stride),
             reinterpret_cast<const std::uint8_t*>(kv_.v + t.head * kv_.head_stride), t.slice.table, kv_.block_tokens, kv_.block_stride,
             t.head + 1 < kv_heads_ ? kv_.head_stride : 0, p.m + split * p.vectors, p.l + split * p.vectors, p.o + split * p.vectors * head_dim_, scratch_of(ctx)});
  }

  void merge(const ExecContext& ctx, const Tile& t, const Partials& p) const {
    const int splits = splits_of(t.slice.first + t.begin + t.rows);
    const std::int64_t n = group_ * head_dim_;
    float* row = scratch_of(ctx) + kernel_scratch() + partials_floats(max_splits_, std::int64_t{tile_rows_} * group_);
    for (int r = 0; r < t.rows; ++r) {
      const std::int64_t at = offset_of(t) + r * q_stride();
      float* out = to_ == DType::f32 ? ctx.at<float>(1) + at : row;
      for (int h = 0; h < group_; ++h) {
        const std::int64_t v = std::int64_t{r} * group_ + h;
        kernels_.merge_partials({p.m + v, p.l + v, p.o + v * head_dim_, splits, p.vectors, p.vectors * head_dim_, head_dim_, out + h * head_dim_});
      }
      write_activations(kernels_, to_, out, ctx.io[1], max_rows_, q_stride(), at, n);
    }
  }

  /// Partial results split by split, merged in order.
  void run_tile(const ExecContext& ctx, const Tile& t) const {
    const Partials p = partials_at(scratch_of(ctx) + kernel_scratch(), max_splits_, std::int64_t{t.rows} * group_);
    for (int split = 0; split < splits_of(t.slice.first + t.begin + t.rows); ++split) attend_split(ctx, t, split, p);
    merge(ctx, t, p);
  }

  /// The same for few rows behind many keys: every split is a tile of its own, so that all workers have some.
  template <class TileAt>
  void execute_splits(const ExecContext& ctx, int tiles, int splits, TileAt tile_at) const {
    const auto partials = [&](int i) { return partials_at(ctx.at<float>(2) + i * partials_floats(max_splits_, group_), max_splits_, group_); };
    ctx.worker.for_tiles(tiles * splits, [&](int i) {
      const Tile t = tile_at(i / splits);
      if (i % splits < splits_of(t.slice.first + t.rows)) attend_split(ctx, t, i % splits, partials(i / splits));
    });
    ctx.worker.barrier();
    ctx.worker.for_tiles(tiles, [&](int i) { merge(ctx, tile_at(i), partials(i)); });
  }

  const kernels::KernelTable& kernels_;
  KvLayer kv_;
  DType to_;
  int max_rows_;
  Rows rows_;
  int kv_heads_, group_;
  std::int64_t head_dim_;
  float scale_;
  int window_, tile_rows_;
  std::int64_t max_splits_;
  int few_tiles_;  // below: too few for all workers
  kernels::attend_f32_fn kernel_;
};

class Attend final : public Op {
 public:
  Attend(int layer, int kv_heads, float scale, int window, DType to) : layer_(layer), kv_heads_(kv_heads), scale_(scale), window_(window), to_(to) {}
  std::string_view name() const override { return "attend"; }
  int kv_layer() const override { return layer_; }
  Result<std::vector<ValueDesc>> infer(std::span<const ValueDesc> in) const override {
    if (in[0].dtype != DType::f32 || in[0].row.rank() != 2 || in[0].row[0] % kv_heads_ != 0)
      return error(Code::invalid_argument, "attend of {} over {} KV heads", to_string(in[0]), kv_heads_);
    if (to_ == DType::q8_act && in[0].row.elements() / kv_heads_ % 32 != 0)
      return error(Code::invalid_argument, "attend of {} over {} KV heads as {}", to_string(in[0]), kv_heads_, to_string(to_));
    return std::vector{ValueDesc{to_, {in[0].row.elements()}, in[0].rows}};
  }
  Result<std::unique_ptr<BoundOp>> setup(const SetupContext& ctx, std::span<const OpInput> in) const override {
    return std::unique_ptr<BoundOp>(
        std::make_unique<BoundAttend>(ctx, ctx.kv_layers[static_cast<std::size_t>(layer_)], in[0].desc, kv_heads_, scale_, window_, to_));
  }

 private:
  int layer_, kv_heads_;
  float scale_;
  int window_;
  DType to_;
};

}  // namespace

std::unique_ptr<Op> make_cache_write(int layer) { return std::make_unique<CacheWrite>(layer); }
std::unique_ptr<Op> make_attend(int layer, int kv_heads, float scale, int window, DType to) { return std::make_unique<Attend>(layer, kv_heads, scale, window, to); }

}  // namespace millrace::ops
