#include "cli/load_chunk.h"

#include <gtest/gtest.h>

#include <array>

namespace millrace::cli {
namespace {

TEST(LoadChunk, text_is_that_of_either_api_and_of_the_reasoning) {
  for (const std::string_view json : std::to_array<std::string_view>({R"({"choices":[{"text":"a","index":0}]})", R"({"choices":[{"delta":{"content":"a"}}]})",
                                                                      R"({"choices":[{"delta":{"role":"assistant","reasoning_content":"a"}}]})",
                                                                      R"({"choices":[{"delta":{}},{"delta":{"content":"b"}}]})"}))
    EXPECT_TRUE(read_chunk(json).has_text) << json;
}

TEST(LoadChunk, a_role_an_end_and_text_elsewhere_are_no_text) {  // TTFT is the first chunk with text
  for (const std::string_view json : std::to_array<std::string_view>(
           {R"({"choices":[{"delta":{"role":"assistant","content":""}}]})", R"({"choices":[{"delta":{"content":null},"finish_reason":"length"}]})",
            R"({"choices":[],"text":"a","usage":{"text":"b"}})", R"({"choices":[{"logprobs":{"content":[{"content":"a"}]},"text":""}]})",
            R"({"other":[{"text":"a"}]})"}))
    EXPECT_FALSE(read_chunk(json).has_text) << json;
}

TEST(LoadChunk, usage_is_read_with_what_was_cached) {
  const ChunkFacts facts = read_chunk(R"({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":8}}})");
  EXPECT_EQ(facts.usage.prompt_tokens, 12);
  EXPECT_EQ(facts.usage.completion_tokens, 5);
  EXPECT_EQ(facts.usage.cached_tokens, 8);
  EXPECT_EQ(read_chunk(R"({"choices":[{"text":"a"}],"usage":null})").usage.completion_tokens, -1);
  EXPECT_EQ(read_chunk(R"({"choices":[{"text":"a","usage":{"completion_tokens":3}}],"completion_tokens":4})").usage.completion_tokens, -1);
}

TEST(LoadChunk, errors_are_seen_in_each_form) {
  EXPECT_EQ(read_chunk(R"({"error":{"message":"too long","code":400}})").error, "too long");
  EXPECT_EQ(read_chunk(R"({"error":"too long"})").error, "too long");
  EXPECT_EQ(read_chunk(R"({"object":"error","message":"too long"})").error, "too long");
  EXPECT_TRUE(read_chunk(R"({"error":{}})").has_error);
  EXPECT_TRUE(read_chunk(R"({"object":"error","message":"too long"})").has_error);
  EXPECT_FALSE(read_chunk(R"({"error":null,"choices":[]})").has_error);
  EXPECT_FALSE(read_chunk(R"({"object":"text_completion","choices":[]})").has_error);
}

TEST(LoadChunk, broken_and_deep_json_is_taken_for_what_it_is) {
  for (const std::string_view json : std::to_array<std::string_view>({"", "{", R"({"choices":[{"text":"a"}])", "no", R"({"a":"\ud800"})"})) EXPECT_FALSE(read_chunk(json).is_json) << json;
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += R"({"a":[)";
  for (int i = 0; i < 5000; ++i) deep += "]}";
  EXPECT_TRUE(read_chunk(deep).is_json);
}

TEST(LoadChunk, a_refusal_is_one_sentence) {
  EXPECT_EQ(error_sentence(R"({"error":{"message":"slow down\nplease","type":"rate"}})"), "slow down");
  EXPECT_EQ(error_sentence("<html>\n<body>"), "<html>");
  EXPECT_EQ(error_sentence(""), "");
  EXPECT_EQ(error_sentence(std::string(300, 'a')).size(), 203u);
}

}  // namespace
}  // namespace millrace::cli
