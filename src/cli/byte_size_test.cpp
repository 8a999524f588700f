#include "cli/byte_size.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

TEST(ByteSize, units_of_1000_and_of_1024_in_any_case) {
  EXPECT_EQ(*parse_byte_size("4GiB"), std::int64_t{4} << 30);
  EXPECT_EQ(*parse_byte_size("4gib"), std::int64_t{4} << 30);
  EXPECT_EQ(*parse_byte_size("500MB"), 500'000'000);
  EXPECT_EQ(*parse_byte_size("1.5KiB"), 1536);
  EXPECT_EQ(*parse_byte_size("12345"), 12345);
  EXPECT_EQ(*parse_byte_size("7B"), 7);
}

TEST(ByteSize, what_is_no_size_is_refused_with_the_text) {
  for (const char* wrong : {"", "GiB", "4G", "-1GiB", "0", "0.1B", "1e9", "4 GiB", "4GiBs", "nanMB", "infGB", "99999999TiB", "1.2.3MB", "30%"}) {
    const auto parsed = parse_byte_size(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.error().message, fmt::format("expected a size like 4GiB or 500MB, got '{}'", wrong));
  }
}

TEST(ByteSize, an_amount_is_bytes_or_a_share) {
  EXPECT_EQ(parse_memory_amount("30%")->of(1000), 300);
  EXPECT_EQ(parse_memory_amount("0.5%")->of(1000), 5);
  EXPECT_EQ(parse_memory_amount("2KiB")->of(1000), 2048);
  for (const char* wrong : {"0%", "101%", "%", "-5%", "5%%", "half", ""}) EXPECT_FALSE(parse_memory_amount(wrong).ok()) << wrong;
}

TEST(ByteSize, bytes_are_said_with_one_decimal) {
  EXPECT_EQ(byte_text(0), "0 B");
  EXPECT_EQ(byte_text(1023), "1023 B");
  EXPECT_EQ(byte_text(1536), "1.5 KiB");
  EXPECT_EQ(byte_text((std::int64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(byte_text(std::int64_t{15} << 29), "7.5 GiB");
}

}  // namespace
}  // namespace millrace::cli
