#include "ops/packed_weight.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tensor/half.h"

namespace millrace::ops {
namespace {

using tensor::DType;

/// Random bytes that are valid blocks: scales are finite halves.
std::vector<std::byte> random_rows(DType type, std::int64_t n, std::int64_t k, unsigned seed) {
  std::mt19937 rng(seed);
  const tensor::BlockLayout b = tensor::layout_of(type);
  std::vector<std::byte> out(static_cast<std::size_t>(n * k / b.elements * b.bytes));
  for (auto& x : out) x = static_cast<std::byte>(rng());
  const auto put_half = [&](std::size_t at, float f) {
    const std::uint16_t h = type == DType::bf16 ? tensor::f32_to_bf16(f) : tensor::f32_to_f16(f);
    std::memcpy(out.data() + at, &h, 2);
  };
  std::normal_distribution<float> normal;
  for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(b.bytes)) {
    if (type == DType::f32) {
      const float f = normal(rng);
      std::memcpy(out.data() + at, &f, 4);
    } else {
      put_half(at, normal(rng));
      if (type == DType::q4_1) put_half(at + 2, normal(rng));
    }
  }
  return out;
}

/// The value of element i of a source row, written from the format page, not from the packing.
float source_value(DType type, const std::byte* row, std::int64_t i) {
  const auto half = [](const std::byte* p) { std::uint16_t h; std::memcpy(&h, p, 2); return h; };
  if (type == DType::f32) { float f; std::memcpy(&f, row + 4 * i, 4); return f; }
  if (type == DType::f16) return tensor::f16_to_f32(half(row + 2 * i));
  if (type == DType::bf16) return tensor::bf16_to_f32(half(row + 2 * i));
  const std::byte* block = row + i / 32 * tensor::layout_of(type).bytes;
  const int j = static_cast<int>(i % 32);
  const float d = tensor::f16_to_f32(half(block));
  if (type == DType::q8_0) return d * static_cast<float>(static_cast<std::int8_t>(block[2 + j]));
  const std::byte* qs = block + (type == DType::q4_1 ? 4 : 2);
  const int q = j < 16 ? static_cast<int>(qs[j]) & 15 : static_cast<int>(qs[j - 16]) >> 4;
  return type == DType::q4_0 ? d * static_cast<float>(q - 8) : d * static_cast<float>(q) + tensor::f16_to_f32(half(block + 2));
}

TEST(PackedWeight, unpacking_a_row_gives_the_source_values_in_every_format_and_panel_size) {
  device::CoreGroup group({.workers = 2});
  for (const DType type : packable_types())
    for (const int panel_rows : {8, 16})
      for (const std::int64_t n : {1, 7, 16, 45}) {
        const std::int64_t k = type == DType::f32 || type == DType::f16 || type == DType::bf16 ? 67 : 96;
        const std::vector<std::byte> bytes = random_rows(type, n, k, static_cast<unsigned>(n));
        const tensor::ConstTensorView source{{type, {n, k}}, bytes.data()};
        PackedWeight w = *describe_packed(source.desc, panel_rows);
        std::vector<std::byte> memory(w.bytes() + 64);
        w.data = memory.data();
        pack(source, {}, w, group);
        std::vector<float> row(static_cast<std::size_t>(k));
        for (std::int64_t r = 0; r < n; ++r) {
          unpack_row(w, r, row.data());
          for (std::int64_t i = 0; i < k; ++i)
            ASSERT_EQ(row[static_cast<std::size_t>(i)], source_value(type, bytes.data() + static_cast<std::size_t>(r) * source.desc.row_bytes(), i))
                << to_string(type) << " panel of " << panel_rows << ", row " << r << ", element " << i;
        }
      }
}

TEST(PackedWeight, interleaved_rotary_rows_come_back_as_two_halves) {
  const RowOrder order{.interleaved_head_dim = 6, .interleaved_rot = 4};
  const std::vector<std::int64_t> want = {0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11};
  for (std::int64_t r = 0; r < 12; ++r) EXPECT_EQ(order.source_row(r), want[static_cast<std::size_t>(r)]);
}

TEST(PackedWeight, formats_without_kernels_and_broken_rows_are_refused_by_name) {
  EXPECT_EQ(describe_packed({DType::q3_k, {4, 256}}, 8).error().message, "weights of q3_k have no kernels in this build");
  EXPECT_EQ(describe_packed({DType::q4_0, {4, 48}}, 8).error().code, Code::corrupt_data);
  EXPECT_EQ(describe_packed({DType::f32, {4, 3, 2}}, 8).error().message, "a matrix of shape [4, 3, 2], expected two dimensions");
}

}  // namespace
}  // namespace millrace::ops
