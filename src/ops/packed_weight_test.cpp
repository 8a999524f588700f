#include "ops/packed_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/half.h"

namespace millrace::ops {
namespace {

using tensor::DType;

/// Where a block has its halves; of a plain 16-bit type, the value.
std::vector<int> halves_of(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k: return {0, 2};
    case DType::q2_k: return {80, 82};
    case DType::q3_k: return {108};
    case DType::q6_k: return {208};
    default: return {0};
  }
}

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
      for (const int half : halves_of(type)) put_half(at + static_cast<std::size_t>(half), normal(rng));
    }
  }
  return out;
}

float bf16_value(const std::byte* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return tensor::bf16_to_f32(h);
}

float half_value(const std::byte* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return tensor::f16_to_f32(h);
}

/// Formats of 32 values a block.
float block_value(DType type, const std::byte* block, int j) {
  constexpr float kTable[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const bool has_m = type == DType::q4_1 || type == DType::q5_1, five = type == DType::q5_0 || type == DType::q5_1;
  const float d = half_value(block), m = has_m ? half_value(block + 2) : 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(block) + (has_m ? 4 : 2);
  if (type == DType::q8_0) return d * static_cast<float>(static_cast<std::int8_t>(bytes[j]));
  std::uint32_t high_bits = 0;
  if (five) std::memcpy(&high_bits, bytes, 4), bytes += 4;
  int q = j < 16 ? bytes[j] & 15 : bytes[j - 16] >> 4;
  if (high_bits >> j & 1) q += 16;
  if (type == DType::iq4_nl) return d * kTable[q];
  if (type == DType::q4_0) q -= 8;
  if (type == DType::q5_0) q -= 16;
  return d * static_cast<float>(q) + m;
}

/// Formats of 256 values a block: fills all of them, walking the block from front to back as the format pages do.
void super_values(DType type, const std::byte* block, float* out) {
  constexpr int kTable[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const auto* u = reinterpret_cast<const std::uint8_t*>(block);
  const auto emit = [&](float d, int scale, int q, float m = 0, int min = 0) {
    *out++ = d * static_cast<float>(scale) * static_cast<float>(q) - m * static_cast<float>(min);
  };
  if (type == DType::q2_k) {
    const float d = half_value(block + 80), m = half_value(block + 82);
    for (int half = 0, group = 0; half < 2; ++half)
      for (int shift = 0; shift < 8; shift += 2)
        for (int side = 0; side < 32; side += 16, ++group)
          for (int l = 0; l < 16; ++l) emit(d, u[group] % 16, u[16 + 32 * half + side + l] >> shift & 3, m, u[group] / 16);
  } else if (type == DType::q3_k) {
    const float d = half_value(block + 108);
    std::vector<int> scales;
    for (int i = 0; i < 16; ++i) {
      const int low = i < 8 ? u[96 + i] % 16 : u[96 + i - 8] / 16;
      scales.push_back(low + 16 * (u[104 + i % 4] >> i / 4 * 2 & 3) - 32);
    }
    for (int half = 0, group = 0, mask = 1; half < 2; ++half)
      for (int shift = 0; shift < 8; shift += 2, mask *= 2)
        for (int side = 0; side < 32; side += 16, ++group)
          for (int l = 0; l < 16; ++l)
            emit(d, scales[static_cast<std::size_t>(group)], (u[32 + 32 * half + side + l] >> shift & 3) - (u[side + l] & mask ? 0 : 4));
  } else if (type == DType::q4_k || type == DType::q5_k) {
    const float d = half_value(block), m = half_value(block + 2);
    const std::uint8_t *s = u + 4, *high = u + 16, *qs = type == DType::q4_k ? u + 16 : u + 48;
    for (int group = 0; group < 8; ++group) {
      const int scale = group < 4 ? s[group] % 64 : s[group + 4] % 16 + s[group - 4] / 64 * 16;
      const int min = group < 4 ? s[group + 4] % 64 : s[group + 4] / 16 + s[group] / 64 * 16;
      for (int l = 0; l < 32; ++l) {
        const int nibble = group % 2 == 0 ? qs[group / 2 * 32 + l] % 16 : qs[group / 2 * 32 + l] / 16;
        emit(d, scale, nibble + (type == DType::q5_k && (high[l] >> group & 1) ? 16 : 0), m, min);
      }
    }
  } else if (type == DType::q6_k) {
    const float d = half_value(block + 208);
    for (int j = 0; j < 256; ++j) {
      const int half = j / 128, quarter = j % 128 / 32, l = j % 32;
      const std::uint8_t low = u[64 * half + (quarter % 2) * 32 + l], high = u[128 + 32 * half + l];
      emit(d, static_cast<std::int8_t>(u[192 + j / 16]), (quarter < 2 ? low % 16 : low / 16) + 16 * (high >> 2 * quarter & 3) - 32);
    }
  } else {
    std::uint16_t scales_high;
    std::memcpy(&scales_high, block + 2, 2);
    const float d = half_value(block);
    for (int group = 0; group < 8; ++group) {
      const int scale = (u[4 + group / 2] >> group % 2 * 4 & 15) + 16 * (scales_high >> 2 * group & 3) - 32;
      for (int l = 0; l < 32; ++l) emit(d, scale, kTable[l < 16 ? u[8 + 16 * group + l] % 16 : u[8 + 16 * group + l - 16] / 16]);
    }
  }
}

/// The values of a source row, written from the format page, not from the packing.
std::vector<float> source_values(DType type, const std::byte* row, std::int64_t k) {
  std::vector<float> out(static_cast<std::size_t>(k));
  const tensor::BlockLayout layout = tensor::layout_of(type);
  for (std::int64_t i = 0; i < k; ++i) {
    const std::byte* block = row + i / layout.elements * layout.bytes;
    float& value = out[static_cast<std::size_t>(i)];
    if (type == DType::f32) std::memcpy(&value, block, 4);
    else if (type == DType::f16) value = half_value(block);
    else if (type == DType::bf16) value = bf16_value(block);
    else if (layout.elements == 32) value = block_value(type, block, static_cast<int>(i % 32));
    else if (i % 256 == 0) super_values(type, block, &value);
  }
  return out;
}

TEST(PackedWeight, unpacking_a_row_gives_the_source_values_in_every_format_and_panel_size) {
  device::CoreGroup group({.workers = 2});
  for (const DType type : packable_types())
    for (const int panel_rows : {8, 16})
      for (const std::int64_t n : {1, 7, 16, 45}) {
        const int unit = tensor::layout_of(type).elements;
        const std::int64_t k = unit == 1 ? 67 : unit == 32 ? 96 : 512;
        const std::vector<std::byte> bytes = random_rows(type, n, k, static_cast<unsigned>(n));
        const tensor::ConstTensorView source{{type, {n, k}}, bytes.data()};
        PackedWeight w = *describe_packed(source.desc, panel_rows);
        std::vector<std::byte> memory(w.bytes() + 64);
        w.data = memory.data();
        pack(source, {}, w, group);
        std::vector<float> row(static_cast<std::size_t>(k));
        for (std::int64_t r = 0; r < n; ++r) {
          unpack_row(w, r, row.data());
          const std::vector<float> want = source_values(type, bytes.data() + static_cast<std::size_t>(r) * source.desc.row_bytes(), k);
          for (std::size_t i = 0; i < want.size(); ++i)
            ASSERT_EQ(row[i], want[i]) << to_string(type) << " panel of " << panel_rows << ", row " << r << ", element " << i;
        }
      }
}

TEST(PackedWeight, a_packed_matrix_takes_the_memory_of_the_file_and_little_more) {
  for (const DType type : packable_types())
    for (const int panel_rows : {8, 16}) {
      const tensor::TensorDesc desc{type, {64, 4096}};
      const double packed = static_cast<double>(describe_packed(desc, panel_rows)->bytes()), file = static_cast<double>(desc.bytes());
      EXPECT_GE(packed, file) << to_string(type);
      EXPECT_LE(packed, file * 1.04) << to_string(type);  // 6-bit scales take a byte: q3_k 3.6 %, the others less
    }
}

// A broken file may say so; nothing stops, and only this row is spoilt.
TEST(PackedWeight, scales_that_are_not_finite_are_kept) {
  device::CoreGroup group({.workers = 1});
  for (const DType type : packable_types()) {
    if (tensor::layout_of(type).elements == 1) continue;
    std::vector<std::byte> bytes = random_rows(type, 2, 256, 3);
    const std::size_t row_bytes = bytes.size() / 2;
    for (const int half : halves_of(type)) {
      const std::uint16_t nan = 0x7E00;
      std::memcpy(bytes.data() + half, &nan, 2);
    }
    const tensor::ConstTensorView source{{type, {2, 256}}, bytes.data()};
    PackedWeight w = *describe_packed(source.desc, 8);
    std::vector<std::byte> memory(w.bytes() + 64);
    w.data = memory.data();
    pack(source, {}, w, group);
    std::vector<float> row(256);
    unpack_row(w, 0, row.data());
    EXPECT_TRUE(std::isnan(row[0])) << to_string(type);
    unpack_row(w, 1, row.data());
    EXPECT_EQ(row, source_values(type, bytes.data() + row_bytes, 256)) << to_string(type);
  }
}

TEST(PackedWeight, interleaved_rotary_rows_come_back_as_two_halves) {
  const RowOrder order{.interleaved_head_dim = 6, .interleaved_rot = 4};
  const std::vector<std::int64_t> want = {0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11};
  for (std::int64_t r = 0; r < 12; ++r) EXPECT_EQ(order.source_row(r), want[static_cast<std::size_t>(r)]);
}

TEST(PackedWeight, formats_without_kernels_and_broken_rows_are_refused_by_name) {
  EXPECT_EQ(describe_packed({DType::f64, {4, 256}}, 8).error().message, "weights of f64 have no kernels in this build");
  EXPECT_EQ(describe_packed({DType::q6_k, {4, 384}}, 8).error().message, "rows of 384 values, expected a multiple of 256 for q6_k");
  EXPECT_EQ(describe_packed({DType::q4_0, {4, 48}}, 8).error().code, Code::corrupt_data);
  EXPECT_EQ(describe_packed({DType::f32, {4, 3, 2}}, 8).error().message, "a matrix of shape [4, 3, 2], expected two dimensions");
}

}  // namespace
}  // namespace millrace::ops
