#include "cli/load_sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::cli {
namespace {

using Events = std::vector<std::string>;

void expect_everywhere(const std::string& bytes, const Events& want) {
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    for (std::size_t second = cut; second <= bytes.size(); ++second) {
      SseParser parser;
      Events got;
      const auto sink = [&](std::string_view data) { got.emplace_back(data); };
      for (const auto& piece : {bytes.substr(0, cut), bytes.substr(cut, second - cut), bytes.substr(second)}) ASSERT_EQ(parser.feed(piece, sink), "");
      ASSERT_EQ(got, want) << cut << " " << second << " of " << bytes;
    }
}

TEST(SseParser, lines_end_with_lf_cr_or_both_however_the_bytes_are_cut) {
  for (const std::string end : {"\n", "\r\n", "\r"}) expect_everywhere("data: a" + end + end + "data:b" + end + end, {"a", "b"});
  expect_everywhere("data: a\r\n\n\rdata: b\n\r\n", {"a", "b"});  // mixed: three blank lines, one event each at most
}

TEST(SseParser, data_lines_of_one_event_are_joined) {
  expect_everywhere("data: {\ndata:  \"a\": 1\ndata\ndata: }\n\n", {"{\n \"a\": 1\n\n}"});
  expect_everywhere("data:\n\n", {""});
}

TEST(SseParser, comments_and_other_fields_say_nothing) {
  expect_everywhere(": keep-alive\n\nevent: message\nid: 7\nretry: 10\ndata: a\n:x\ndatabase: b\n\n", {"a"});
}

TEST(SseParser, an_event_without_its_blank_line_is_none) { expect_everywhere("data: a\n\ndata: b\n", {"a"}); }

TEST(SseParser, a_byte_order_mark_is_skipped_at_the_start_only) {
  expect_everywhere("\xEF\xBB\xBF" "data: a\n\n", {"a"});
  expect_everywhere("data: a\n\n\xEF\xBB\xBF" "data: b\n\n", {"a"});
}

TEST(SseParser, an_event_without_an_end_takes_no_more_memory) {
  SseParser parser;
  std::string wrong;
  for (int i = 0; i < 17 && wrong.empty(); ++i) wrong = parser.feed(std::string(1 << 20, 'a'), [](std::string_view) {});
  EXPECT_NE(wrong, "");
}

}  // namespace
}  // namespace millrace::cli
