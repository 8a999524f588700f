#include "ops/op.h"

#include <algorithm>

namespace millrace::ops {

std::size_t ValueDesc::row_bytes() const {
  const tensor::BlockLayout b = tensor::layout_of(dtype);
  return static_cast<std::size_t>(row.elements() / b.elements * b.bytes);
}

std::string to_string(const ValueDesc& desc) {
  constexpr std::string_view kRows[] = {"", "T ", "S ", "L "};
  return std::string(to_string(desc.dtype)) + " " + std::string(kRows[static_cast<int>(desc.rows)]) + to_string(desc.row);
}

void RowOp::execute(const ExecContext& ctx) const noexcept {
  const int rows = ctx.step.rows(rows_), tile = tile_rows(rows);
  ctx.worker.for_tiles((rows + tile - 1) / tile, [&](int i) { execute_rows(ctx, std::int64_t{i} * tile, std::min(tile, rows - i * tile)); });
}

Q8Rows q8_rows(std::byte* data, std::int64_t max_rows, std::int64_t k) {
  std::byte* scale = data + max_rows * k;
  std::byte* sum = scale + max_rows * (k / 32) * 4;
  return {reinterpret_cast<std::int8_t*>(data), reinterpret_cast<float*>(scale), reinterpret_cast<std::int16_t*>(sum)};
}

}  // namespace millrace::ops
