#include "server/api_error.h"

#include <gtest/gtest.h>

namespace millrace::server {
namespace {

TEST(ApiErrorCode, what_a_client_wrote_does_not_make_a_prompt_too_long) {
  EXPECT_EQ(to_api_error(field_error("pooling", "expected last or mean, got 'prompt of a exceeds the b'")).code, "");
  EXPECT_EQ(to_api_error(error(Code::invalid_argument, "prompt of 9 tokens exceeds the context of 8")).code, "context_length_exceeded");
}

ApiError of(Code code, const char* message, std::int64_t retry_after_us = 0, const char* where = "") { return to_api_error({code, message, retry_after_us, where}); }

TEST(ApiError, each_code_is_one_status) {
  EXPECT_EQ(of(Code::invalid_argument, "x").status, 400);
  EXPECT_EQ(of(Code::unsupported, "x").status, 400);
  EXPECT_EQ(of(Code::not_found, "x").status, 404);
  EXPECT_EQ(of(Code::exhausted, "x", 1500).status, 429);
  EXPECT_EQ(of(Code::exhausted, "x").status, 503);
  EXPECT_EQ(of(Code::cancelled, "x").status, 503);
  EXPECT_EQ(of(Code::deadline, "x").status, 408);
  EXPECT_EQ(of(Code::corrupt_data, "x").status, 500);
}

TEST(ApiError, a_prompt_that_can_never_fit_is_the_clients_mistake) {
  const ApiError error = of(Code::exhausted, "prompt of 5 tokens plus 36 new ones exceeds the KV cache of 40 tokens");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(of(Code::invalid_argument, "prompt of 40 tokens leaves no room for an answer, 40 tokens fit").code, "context_length_exceeded");
}

TEST(ApiError, a_model_that_is_not_served_has_the_word_that_clients_look_for) {
  EXPECT_EQ(of(Code::not_found, "model: 'x' is not served here", 0, "model").code, "model_not_found");
  EXPECT_EQ(of(Code::not_found, "x").code, "not_found");
}

TEST(ApiError, both_dialects) {
  const ApiError error = of(Code::invalid_argument, "n: got \"x\"", 0, "n");
  EXPECT_EQ(error_response(error, Dialect::openai).body, R"({"error":{"message":"n: got \"x\"","type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_EQ(error_response(error, Dialect::anthropic).body, R"({"type":"error","error":{"type":"invalid_request_error","message":"n: got \"x\""}})");
  EXPECT_EQ(error_event(error, Dialect::openai), "data: " + error_response(error, Dialect::openai).body + "\n\n");
  EXPECT_EQ(error_event(error, Dialect::anthropic), "event: error\ndata: " + error_response(error, Dialect::anthropic).body + "\n\n");
}

TEST(ApiError, retry_after_is_whole_seconds_and_at_least_one) {
  const auto seconds = [](Microseconds us) { return error_response(of(Code::exhausted, "x", us), Dialect::openai).headers.at(0).value; };
  EXPECT_EQ(seconds(1), "1");
  EXPECT_EQ(seconds(1'000'001), "2");
  EXPECT_TRUE(error_response(of(Code::exhausted, "x"), Dialect::openai).headers.empty());
}

}  // namespace
}  // namespace millrace::server
