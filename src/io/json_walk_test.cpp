#include "io/json_walk.h"

#include <gtest/gtest.h>

#include "io/testing/model_files.h"

namespace millrace::io {
namespace {

using testing::says;

std::string refusal(const std::string& text) {
  const auto flat = flatten_json(text);
  return flat ? "" : flat.error().message;
}

TEST(FlattenJson, nested_members_have_paths_and_lists_and_nulls_are_left_out) {
  const auto flat =
      flatten_json(R"({"a":1,"b":{"c":-2,"d":{"e":"x\ny"}},"f":[1,{"g":2}],"h":null,"i":0.5,"j":true,"k":{}})");
  ASSERT_TRUE(flat) << flat.error().message;
  EXPECT_EQ(flat->metadata.all().size(), 5u);
  EXPECT_EQ(*flat->metadata.find("a"), MetadataValue(std::uint64_t{1}));
  EXPECT_EQ(*flat->metadata.find("b.c"), MetadataValue(std::int64_t{-2}));
  EXPECT_EQ(*flat->metadata.find("b.d.e"), MetadataValue(std::string_view("x\ny")));
  EXPECT_EQ(*flat->metadata.find("i"), MetadataValue(0.5));
  EXPECT_EQ(*flat->metadata.find("j"), MetadataValue(true));
}

TEST(FlattenJson, text_that_is_no_object_is_refused) {
  for (const char* text : {"[]", "1", "\"a\"", "null"}) EXPECT_PRED2(says, refusal(text), "not a JSON object") << text;
  for (const char* text : {"", "{", "{\"a\"}", "{\"a\":1,}", "{}x", "{\"a\":NaN}", "{\"a\":1e999}", "{\"a\":\"\xFF\"}",
                           "{'a':1}", "{\"a\":01}"})
    EXPECT_PRED2(says, refusal(text), "not valid JSON") << text;
}

TEST(FlattenJson, one_key_with_two_values_is_refused) {
  EXPECT_PRED2(says, refusal(R"({"a":{"b":1,"b":2}})"), "a.b is there twice");
  EXPECT_PRED2(says, refusal(R"({"a.b":1,"a":{"b":2}})"), "a.b is there twice");
  EXPECT_EQ(refusal(R"({"a":{"c":1},"b":{"c":2}})"), "");
}

TEST(WalkJson, depth_keys_and_their_lengths_are_bounded) {
  EXPECT_PRED2(says, refusal(std::string(100000, '[')), "not a JSON object");
  EXPECT_PRED2(says, refusal("{\"a\":" + std::string(100000, '[')), "nested more than 16 deep");
  EXPECT_PRED2(says, refusal("{\"" + std::string(2000, 'k') + "\":1}"), "key of 2000 bytes");
  std::string many = "{";
  for (int i = 0; i <= 1 << 19; ++i) many += (i ? ",\"" : "\"") + std::to_string(i) + "\":null";
  EXPECT_PRED2(says, refusal(many + "}"), "more than 524288 keys");
}

}  // namespace
}  // namespace millrace::io
