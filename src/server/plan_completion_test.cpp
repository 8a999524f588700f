#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "server/testing/planner_fixture.h"

namespace millrace::server {
namespace {

using testing::Json;

class PlanCompletion : public testing::PlannerTest {
 protected:
  std::string with(const std::string& fields) { return refusal(plan_completion, "{" + fields + "}"); }
  std::vector<std::vector<TokenId>> prompts(const std::string& fields) {
    auto made = plan(plan_completion, "{" + fields + "}");
    EXPECT_TRUE(made) << made.error().message;
    std::vector<std::vector<TokenId>> out;
    if (made)
      for (const engine::Request& request : made->prompts) out.push_back(request.prompt);
    return out;
  }
};

TEST_F(PlanCompletion, prompts_are_text_or_ids_one_or_many) {
  using Ids = std::vector<std::vector<TokenId>>;
  EXPECT_EQ(prompts(R"("prompt":"ab")"), (Ids{{10, 11}}));
  EXPECT_EQ(prompts(R"("prompt":["ab","c"])"), (Ids{{10, 11}, {12}}));
  EXPECT_EQ(prompts(R"("prompt":[10,11])"), (Ids{{10, 11}}));
  EXPECT_EQ(prompts(R"("prompt":[[10,11],[12]])"), (Ids{{10, 11}, {12}}));
  EXPECT_EQ(prompts(R"("prompt":"<control>a")"), (Ids{{1, 10}}));  // raw prompts may spell control tokens
}

TEST_F(PlanCompletion, O6_8_odd_prompts_are_refused_with_their_path) {
  EXPECT_EQ(with(R"("prompt":[[1,2],[48]])"), "prompt[1][0]: expected a token id from 0 to 47, got 48");
  EXPECT_EQ(with(R"("prompt":[[-1]])"), "prompt[0][0]: expected a token id from 0 to 47, got -1");
  EXPECT_EQ(with(R"("prompt":[[1.5]])"), "prompt[0][0]: expected a token id from 0 to 47, got 1.5");
  EXPECT_EQ(with(R"("prompt":["a",[1]])"), "prompt[1]: expected a string, got [1]");
  for (const char* wrong : {"[]", "\"\"", "{}", "null", "true", "[[]]", "[null]", "[1,\"a\"]", "[\"\"]", "[{}]"}) EXPECT_NE(with("\"prompt\":" + std::string(wrong)), "") << wrong;
  EXPECT_NE(with("\"max_tokens\":5"), "");
  std::string many = "[\"a\"";
  for (int i = 0; i < 100'000; ++i) many += ",\"a\"";
  EXPECT_EQ(with("\"prompt\":" + many + "]"), "prompt: expected at most 1024 prompts, got 100001");
  EXPECT_EQ(with(R"("prompt":["a","b","c","d","e","f","g","h","i"],"n":128)"), "n: 128 answers to each of 9 prompts, at most 1024 in all are possible");
}

TEST_F(PlanCompletion, what_cannot_be_is_refused_by_name) {
  EXPECT_EQ(with(R"("prompt":"a","best_of":3)"), "best_of: expected 1 as n: answers are not ranked; got 3");
  EXPECT_EQ(with(R"("prompt":"a","n":3,"best_of":3)"), "");
  EXPECT_EQ(with(R"("prompt":"a","suffix":"b")"), "suffix: not supported by this model: its vocabulary has no fill-in-the-middle tokens");
  EXPECT_EQ(with(R"("prompt":"a","logprobs":21)"), "logprobs: expected an integer from 0 to 20, got 21");
  EXPECT_EQ(with(R"("prompt":"a","prompt_logprobs":1,"stream":true)"), "prompt_logprobs: not together with stream");
  EXPECT_NE(with(R"("prompt":"a","prompt_logprobs":1,"n":2)"), "");
  EXPECT_NE(with(R"("prompt":"a","echo":true,"logprobs":1,"n":2)"), "");
}

TEST_F(PlanCompletion, a_gap_is_filled_in_the_order_prefix_suffix_middle) {
  class GapTokenizer : public testing::LetterTokenizer {
   public:
    std::string_view piece(TokenId token) const override {
      return token == 45 ? "<|fim_prefix|>" : token == 46 ? "<|fim_suffix|>" : token == 47 ? "<|fim_middle|>" : LetterTokenizer::piece(token);
    }
  } tokenizer;
  model_.tokenizer = &tokenizer;
  EXPECT_EQ(prompts(R"("prompt":"ab","suffix":"c")"), (std::vector<std::vector<TokenId>>{{45, 10, 11, 46, 12, 47}}));
  EXPECT_EQ(with(R"("prompt":[10],"suffix":"c")"), "suffix: only with a prompt of text");
}

TEST_F(PlanCompletion, stop_strings_times_answers_are_bounded) {
  std::string stops = "[";
  for (int i = 0; i < 16; ++i) stops += (i > 0 ? ",\"" : "\"") + std::string(4096, 'a') + "\"";
  EXPECT_EQ(with("\"prompt\":\"a\",\"stop\":" + stops + "]"), "");
  EXPECT_NE(with("\"prompt\":\"a\",\"n\":128,\"stop\":" + stops + "]"), "");
}

class PlanEmbedding : public testing::PlannerTest {};

TEST_F(PlanEmbedding, vectors_are_pooled_and_normalised) {
  const Json last = Json::parse(ask(plan_embedding, R"({"input":["abc","d"]})").body);
  ASSERT_EQ(last["data"].size(), 2U);
  EXPECT_EQ(last["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(last["data"][1]["index"], 1);
  using namespace engine::testing;
  const auto row = [](std::vector<TokenId> ids) { return row_of(state_after(ids), kDim); };
  const auto expect_direction = [](const Json& got, std::vector<double> want) {
    double length = 0;
    for (const double x : want) length += x * x;
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i].get<double>(), want[i] / std::sqrt(length), 1e-6);
  };
  const auto third = row({10, 11, 12});
  expect_direction(last["data"][0]["embedding"], {third.begin(), third.end()});

  const Json mean = Json::parse(ask(plan_embedding, R"({"input":"abc","pooling":"mean"})").body);
  const auto one = row({10}), two = row({10, 11});
  std::vector<double> sum;
  for (std::size_t i = 0; i < kDim; ++i) sum.push_back(double{one[i]} + two[i] + third[i]);
  expect_direction(mean["data"][0]["embedding"], sum);
}

TEST_F(PlanEmbedding, base64_is_the_same_floats) {
  const Json numbers = Json::parse(ask(plan_embedding, R"({"input":[10,11],"normalize":false})").body);
  const Json text = Json::parse(ask(plan_embedding, R"({"input":[10,11],"normalize":false,"encoding_format":"base64"})").body);
  const std::string digits = text["data"][0]["embedding"];
  ASSERT_EQ(digits.size(), 16U);  // 12 bytes
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 4) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 4; ++j) group = group << 6 | static_cast<unsigned>(alphabet.find(digits[i + j]));
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift & 255);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    EXPECT_EQ(value, numbers["data"][0]["embedding"][i].get<float>());
  }
}

TEST_F(PlanEmbedding, odd_inputs_are_refused) {
  EXPECT_EQ(refusal(plan_embedding, R"({"input":"a","dimensions":4})"), "dimensions: this model's vectors have 3, got 4");
  EXPECT_EQ(refusal(plan_embedding, R"({"input":"a","dimensions":3})"), "");
  for (const char* wrong : {"\"\"", "[]", "null", "[[]]", "[48]"}) EXPECT_NE(refusal(plan_embedding, R"({"input":)" + std::string(wrong) + "}"), "") << wrong;
  EXPECT_NE(refusal(plan_embedding, R"({"input":")" + std::string(201, 'a') + R"("})"), "");
}

}  // namespace
}  // namespace millrace::server
