#include "cli/trace.h"

#include <gtest/gtest.h>

#include "base/testing/scratch_folder.h"

namespace millrace::cli {
namespace {

std::string message_of(const std::string& text) {
  const testing::ScratchFolder scratch;
  const std::string path = scratch.file("t.jsonl", text);
  const auto trace = read_trace(path);
  if (trace) return "";
  std::string message = trace.error().message;
  if (const auto at = message.find(path); at != message.npos) message.replace(at, path.size(), "F");
  return message;
}

TEST(Trace, is_read_in_order_of_arrival) {
  const testing::ScratchFolder scratch;
  const auto trace = read_trace(scratch.file("t.jsonl", "{\"arrival_s\": 2, \"prompt_tokens\": 30, \"new_tokens\": 5, \"prefix_group\": \"s\", \"prefix_tokens\": 16}\n\n"
                                        "{\"arrival_s\": 0.5, \"prompt_tokens\": 20, \"new_tokens\": 4, \"prefix_group\": null, \"tenant\": \"b\"}\n"));
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ((*trace)[0].arrival_s, 0.5);
  EXPECT_EQ((*trace)[0].tenant, "b");
  EXPECT_EQ((*trace)[1].prefix_group, "s");
  EXPECT_EQ((*trace)[1].prefix_tokens, 16);
}

TEST(Trace, says_which_line_and_field_is_wrong) {
  const std::string fine = "{\"arrival_s\": 0, \"prompt_tokens\": 3, \"new_tokens\": 1}\n";
  EXPECT_EQ(message_of(fine), "");
  EXPECT_EQ(message_of(fine + "[1]\n"), "'F' line 2: expected a JSON object");
  EXPECT_EQ(message_of("{\"arrival_s\": 0, \"prompt_tokens\": 0, \"new_tokens\": 1}"),
            "'F' line 1: prompt_tokens: expected 1 to 16777216, got 0");
  EXPECT_EQ(message_of("{\"arrival_s\": 0, \"prompt_tokens\": 3}"), "'F' line 1: new_tokens: expected a number");
  EXPECT_EQ(message_of("{\"arrival_s\": 0, \"prompt_tokens\": 3, \"new_tokens\": 1, \"prefix_tokens\": 4}"),
            "'F' line 1: prefix_tokens: expected 0 to 3, got 4");
  EXPECT_EQ(message_of("\n"), "the trace 'F' has no requests");
  EXPECT_EQ(read_trace("/no/such/file").error().message, "cannot read the trace '/no/such/file'");
}

TEST(Trace, prompts_of_a_group_begin_alike_and_no_others_do) {
  const std::vector<TraceRequest> trace = {{0, 40, 1, "s", 32, ""}, {1, 50, 1, "s", 32, ""}, {2, 40, 1, "", 0, ""}};
  const auto prompts = prompts_of(trace, 1000, 7);
  EXPECT_EQ(prompts[0].size(), 40u);
  EXPECT_EQ(prompts[1].size(), 50u);
  EXPECT_TRUE(std::equal(prompts[0].begin(), prompts[0].begin() + 32, prompts[1].begin()));
  EXPECT_FALSE(std::equal(prompts[0].begin(), prompts[0].begin() + 8, prompts[2].begin()));
  EXPECT_EQ(prompts_of(trace, 1000, 7), prompts);
  for (const auto& prompt : prompts)
    for (const TokenId token : prompt) EXPECT_TRUE(token >= 0 && token < 1000);
}

TEST(Trace, a_made_one_is_the_same_for_the_same_seed) {
  const auto a = make_trace(48, 1), b = make_trace(48, 1);
  ASSERT_EQ(a.size(), 48u);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].prompt_tokens, b[i].prompt_tokens);
    EXPECT_TRUE(a[i].prompt_tokens >= 8 && a[i].prompt_tokens <= 1024 && a[i].new_tokens >= 8 && a[i].new_tokens <= 256);
    EXPECT_TRUE(i == 0 || a[i].arrival_s >= a[i - 1].arrival_s);
  }
}

}  // namespace
}  // namespace millrace::cli
