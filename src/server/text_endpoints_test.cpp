#include "server/text_endpoints.h"

#include <gtest/gtest.h>

#include "server/testing/planner_fixture.h"

namespace millrace::server {
namespace {

using testing::Json;

class TextEndpoints : public testing::PlannerTest {
 protected:
  using Answer = Result<std::string> (*)(const Json&, RequestContext&);
  std::string say(Answer answer, const std::string& body) {
    RequestContext own = context();
    auto text = answer(Json::parse(body), own);
    return text ? *text : text.error().message;
  }
};

TEST_F(TextEndpoints, text_becomes_tokens_under_both_names) {
  EXPECT_EQ(say(answer_tokenize, R"({"content":"ab<end>"})"), R"({"tokens":[10,11,0],"count":3,"max_model_len":200})");
  EXPECT_EQ(say(answer_tokenize, R"({"prompt":"ab"})"), R"({"tokens":[10,11],"count":2,"max_model_len":200})");
  EXPECT_EQ(say(answer_tokenize, R"({"content":"a","with_pieces":true})"), R"({"tokens":[{"id":10,"piece":"a"}],"count":1,"max_model_len":200})");
  EXPECT_EQ(say(answer_tokenize, R"({"content":"é","with_pieces":true})"), R"({"tokens":[{"id":5,"piece":[195]},{"id":6,"piece":[169]}],"count":2,"max_model_len":200})");
  EXPECT_EQ(Json::parse(say(answer_tokenize, R"({"content":"a<end>","parse_special":false})"))["tokens"].size(), 6U);
  EXPECT_EQ(Json::parse(say(answer_tokenize, R"({"messages":[{"role":"user","content":"hi"}]})"))["count"], 12);
  EXPECT_EQ(say(answer_tokenize, "{}"), "content: expected one of content, prompt or messages, got none");
}

TEST_F(TextEndpoints, tokens_become_text) {
  EXPECT_EQ(say(answer_detokenize, R"({"tokens":[10,11,0]})"), R"({"content":"ab<end>","prompt":"ab<end>"})");
  EXPECT_EQ(say(answer_detokenize, R"({"tokens":[5]})"), "{\"content\":\"\uFFFD\",\"prompt\":\"\uFFFD\"}");
  EXPECT_EQ(say(answer_detokenize, R"({"tokens":[48]})"), "tokens[0]: expected a token id from 0 to 47, got 48");
  EXPECT_EQ(say(answer_detokenize, R"({"tokens":[]})"), R"({"content":"","prompt":""})");
}

TEST_F(TextEndpoints, messages_become_a_prompt) {
  EXPECT_EQ(say(answer_apply_template, R"({"messages":[{"role":"user","content":"hi \"x\""}]})"), R"({"prompt":"<control>user hi \"x\" <control>a "})");
}

}  // namespace
}  // namespace millrace::server
