#include "base/utf8.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Utf8, every_code_point_round_trips_and_every_cut_is_incomplete_not_broken) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(bytes, c);
    const Utf8Step whole = decode_utf8(bytes);
    ASSERT_EQ(whole.kind, Utf8Step::Kind::character);
    ASSERT_EQ(whole.code_point, c);
    ASSERT_EQ(static_cast<std::size_t>(whole.length), bytes.size());
    for (std::size_t cut = 1; cut < bytes.size(); ++cut)
      ASSERT_EQ(decode_utf8(std::string_view(bytes).substr(0, cut)).kind, Utf8Step::Kind::incomplete);
  }
}

TEST(Utf8, broken_parts_become_one_replacement_each) {
  EXPECT_EQ(repair_utf8("a\xFF" "b"), "a\uFFFDb");
  EXPECT_EQ(repair_utf8("\xF0\x9F" "A"), "\uFFFDA");             // a lead and one good byte are one part
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate: none of its bytes belong together
  EXPECT_EQ(repair_utf8("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(repair_utf8("x\xE2\x82"), "x\uFFFD");
  EXPECT_FALSE(is_valid_utf8("\xC3"));
  EXPECT_TRUE(is_valid_utf8("Straße 漢 🌍"));
}

}  // namespace
}  // namespace millrace
