#include "server/json_body.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/json_text.h"

namespace millrace::server {
namespace {

std::string refusal(std::string_view body) {
  const auto parsed = parse_body(body);
  if (parsed) return "";
  EXPECT_TRUE(is_valid_utf8(parsed.error().message));
  EXPECT_EQ(parsed.error().code, Code::invalid_argument);
  return parsed.error().message;
}

TEST(JsonBody, reads_what_the_library_reads) {
  for (const std::string body : {R"({})", R"( {"a": [1, -2, 3.5, 1e3, -0, 0.25E-2, true, false, null, "x"], "b": {"c": {}}, "d": []} )",
                                 R"({"large": 18446744073709551615, "larger": 18446744073709551616, "least": -9223372036854775808})",
                                 R"({"s": "\" \\ \/ \b \f \n \r \t é \ud83d\ude00 😀"})"}) {
    const auto parsed = parse_body(body);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, text::Json::parse(body)) << body;
    EXPECT_EQ(dump(*parsed), text::Json::parse(body).dump());
  }
}

TEST(JsonBody, O8_1_bodies_of_the_wrong_shape_are_refused_with_the_place) {
  EXPECT_EQ(refusal(""), "the body is empty, expected a JSON object");
  EXPECT_EQ(refusal("{:"), "not JSON: byte 1 is ':', expected a key in quotes");
  EXPECT_EQ(refusal(R"({"messages":[)"), "not JSON: the body ends at byte 13, expected a value");
  for (const char* body : {"[]", R"("x")", "null", "1"}) EXPECT_NE(refusal(body).find("expected a JSON object"), std::string::npos) << body;
  EXPECT_EQ(refusal(R"({"prompt":"a"} x)"), "not JSON: byte 15 is 'x', expected nothing behind the JSON object");
  EXPECT_EQ(refusal(R"({"a":1,"b":{"c":1,"c":2}})"), "the key 'c' stands twice in one JSON object");
  for (const char* body : {"{", "{\"a\"", "{\"a\":}", "{\"a\":1,}", "{\"a\":[1,]}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":+1}", "{\"a\":-}", "{\"a\":1e}",
                           "{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":tru}", "{'a':1}", "{\"a\":1 \"b\":2}", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12\"}",
                           "{\"a\":\"x", "{\"a\":[}", "{\"a\":1e400}", "{\"a\":\"\\", "{} {}", "{,}"})
    EXPECT_NE(refusal(body), "") << body;
  EXPECT_EQ(refusal("{\"a\":1e-400}"), "");
}

TEST(JsonBody, O8_2_deep_nesting_is_refused_in_no_time_on_a_small_stack) {
  const auto before = std::chrono::steady_clock::now();
  for (const int n : {3000, 100'000, 5'000'000}) {
    EXPECT_NE(refusal(R"({"prompt":"a","x":)" + std::string(static_cast<std::size_t>(n), '[') + std::string(static_cast<std::size_t>(n), ']') + "}").find("deeper than 128"), std::string::npos);
    std::string objects;
    for (int i = 0; i < n; ++i) objects += "{\"a\":";
    EXPECT_NE(refusal(objects), "");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  EXPECT_EQ(refusal("{\"a\":" + std::string(127, '[') + std::string(127, ']') + "}"), "");
}

TEST(JsonBody, many_keys_and_many_values_take_linear_time) {
  std::string keys = "{\"k\":0";
  for (int i = 0; i < 200'000; ++i) keys += ",\"k" + std::to_string(i) + "\":0";
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal(keys + "}"), "");
  EXPECT_NE(refusal(keys + ",\"k7\":1}"), "");
  std::string values = "{\"a\":[0";
  for (int i = 0; i < 4'000'000; ++i) values += ",0";
  EXPECT_EQ(refusal(values + "]}"), "the body has more than 4000000 JSON values");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30));
}

TEST(JsonBody, O8_3_half_a_surrogate_pair_is_refused_wherever_it_stands) {
  EXPECT_EQ(refusal(R"({"a":"\ud83d\ude00"})"), "");
  for (const char* body : {R"({"a":"emoji \ud83d"})", R"({"a":"x \ude00 y"})", R"({"a":"\ud83d\u0041"})", R"({"\ud83d":1})", R"({"a":["\ud83d"]})", R"({"a":"\ud83dx"})", R"({"a":"\ud83d\n"})"})
    EXPECT_NE(refusal(body).find("half a surrogate pair"), std::string::npos) << body;
}

TEST(JsonBody, O8_4_bytes_that_are_no_utf8_are_refused) {
  EXPECT_EQ(refusal("{\"prompt\":\"a\xff\xfe"
                    "b\"}"),
            "byte 12 of the body is not valid UTF-8");
  for (const char* body : {"{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xc3", "\xff", "{\"a\":\"\xed\xa0\x80\"}"}) EXPECT_NE(refusal(body).find("not valid UTF-8"), std::string::npos);
  EXPECT_NE(refusal("{\xC3\xA9}").find("byte 1 is '\xC3\xA9'"), std::string::npos);
}

TEST(JsonText, strings_are_escaped_as_the_library_escapes_them) {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  all += "é😀";
  EXPECT_EQ(text::Json::parse(json_string(all)), text::Json(all));
  EXPECT_EQ(json_string("a\"\\\n\x01"), R"("a\"\\\n\u0001")");
  EXPECT_EQ(json_string("a\xff"), "\"a\uFFFD\"");
}

TEST(JsonText, numbers_are_finite_or_null) {
  const auto logprob = [](float value) {
    std::string out;
    append_logprob(out, value);
    return out;
  };
  EXPECT_EQ(logprob(-0.5f), "-0.5");
  EXPECT_EQ(logprob(-std::numeric_limits<float>::infinity()), "-9999.0");
  EXPECT_EQ(logprob(std::numeric_limits<float>::quiet_NaN()), "null");
  EXPECT_EQ(logprob(std::numeric_limits<float>::infinity()), "null");
}

}  // namespace
}  // namespace millrace::server
