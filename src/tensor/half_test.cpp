#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::tensor {
namespace {

TEST(Half, every_f16_survives_the_round_trip) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = f16_to_f32(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f))));
    else EXPECT_EQ(f32_to_f16(f), h) << f;
  }
}

TEST(Half, rounding_picks_the_nearest_f16_and_the_even_one_on_ties) {
  for (std::uint32_t h = 0; h < 0x7BFF; ++h) {
    const double low = f16_to_f32(static_cast<std::uint16_t>(h)), high = f16_to_f32(static_cast<std::uint16_t>(h + 1));
    const float middle = static_cast<float>((low + high) / 2);
    EXPECT_EQ(f32_to_f16(middle), h % 2 ? h + 1 : h);
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), h);
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), h + 1);
  }
}

TEST(Half, every_bf16_survives_the_round_trip) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = bf16_to_f32(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(f))));
    else EXPECT_EQ(f32_to_bf16(f), h);
  }
}

}  // namespace
}  // namespace millrace::tensor
