// The texts that OpenAI's clients read, letter by letter.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/chat_writer.h"
#include "server/completion_writer.h"
#include "server/testing/letter_tokenizer.h"

namespace millrace::server {
namespace {

using text::Json;

class OpenAiWriters : public ::testing::Test {
 protected:
  AnswerStyle style(int top_logprobs = -1) const {
    AnswerStyle style;
    style.id = "x-\"1";
    style.created_s = 7;
    style.model = "m";
    style.fingerprint = "fp_0";
    style.tokenizer = &tokenizer_;
    style.top_logprobs = top_logprobs;
    style.stop = {"END"};
    return style;
  }
  static Answer answer() {
    Answer answer;
    answer.text = "a\"\xC3\xA9";
    answer.tokens = {{10, 0, -0.5f, {{10, -0.5f}, {11, -1.25f}}}, {5, 0, -2.0f, {{10, -0.25f}, {11, -std::numeric_limits<float>::infinity()}}}, {6, 0, -0.125f, {{6, -0.125f}}}};
    answer.ending.finish = engine::Finish::stop;
    answer.ending.stopped_by = engine::StopString{0};
    return answer;
  }
  static constexpr Totals kTotals{5, 2, 3, 0};
  const std::string usage_ = R"({"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":0}})";
  const std::string logprobs_ =
      R"([{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]},{"token":"b","logprob":-1.25,"bytes":[98]}]},)"
      R"({"token":"bytes:\\xc3","logprob":-2,"bytes":[195],"top_logprobs":[{"token":"a","logprob":-0.25,"bytes":[97]},{"token":"b","logprob":-9999.0,"bytes":[98]}]},)"
      R"({"token":"bytes:\\xa9","logprob":-0.125,"bytes":[169],"top_logprobs":[{"token":"bytes:\\xa9","logprob":-0.125,"bytes":[169]}]}])";
  testing::LetterTokenizer tokenizer_;
};

TEST_F(OpenAiWriters, chat_completion) {
  const std::vector<Answer> answers = {answer()};
  EXPECT_EQ(ChatWriter(style()).whole(answers, kTotals),
            R"({"id":"x-\"1","object":"chat.completion","created":7,"model":"m","system_fingerprint":"fp_0","choices":[{"index":0,"message":{"role":"assistant","content":"a\"é","refusal":null},)"
            R"("logprobs":null,"finish_reason":"stop","stop_reason":"END"}],"usage":)" + usage_ + "}");
  const Json with = Json::parse(ChatWriter(style(2)).whole(answers, kTotals));
  EXPECT_EQ(with["choices"][0]["logprobs"]["content"], Json::parse(logprobs_));
}

TEST_F(OpenAiWriters, chat_completion_chunks) {
  const std::string head = R"(data: {"id":"x-\"1","object":"chat.completion.chunk","created":7,"model":"m","system_fingerprint":"fp_0","choices":[)";
  AnswerStyle told = style();
  told.include_usage = true;
  ChatWriter writer(told);
  EXPECT_EQ(writer.begin(), head + R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null})" "\n\n");
  EXPECT_EQ(writer.piece(0, {"hi\n", answer().tokens}), head + R"({"index":0,"delta":{"content":"hi\n"},"logprobs":null,"finish_reason":null}],"usage":null})" "\n\n");
  EXPECT_EQ(writer.piece(0, {"", answer().tokens}), "");  // text is held back, nothing is told
  EXPECT_EQ(writer.progress(0, {64, 32, 100}), head + R"(],"prompt_progress":{"index":0,"total":100,"cache":32,"processed":64},"usage":null})" "\n\n");
  Ending ending = answer().ending;
  ending.finish = engine::Finish::length;
  ending.stopped_by = {};
  EXPECT_EQ(writer.end(0, ending), head + R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":null})" "\n\n");
  EXPECT_EQ(writer.close(kTotals), head + "],\"usage\":" + usage_ + "}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(ChatWriter(style()).close(kTotals), "data: [DONE]\n\n");
  // With log-probabilities tokens are told when they come, also where their text is held back.
  EXPECT_EQ(ChatWriter(style(2)).piece(0, {"", answer().tokens}),
            head + R"({"index":0,"delta":{"content":""},"logprobs":{"content":)" + logprobs_ + R"(,"refusal":null},"finish_reason":null}]})" + "\n\n");
}

TEST_F(OpenAiWriters, text_completion) {
  const std::vector<Answer> answers = {answer()};
  CompletionWriter writer(style(2), std::vector<EchoedPrompt>(1), false, false);
  EXPECT_EQ(writer.whole(answers, kTotals),
            R"({"id":"x-\"1","object":"text_completion","created":7,"model":"m","system_fingerprint":"fp_0","choices":[{"index":0,"text":"a\"é","logprobs":)"
            R"({"tokens":["a","bytes:\\xc3","bytes:\\xa9"],"token_logprobs":[-0.5,-2,-0.125],)"
            R"("top_logprobs":[{"a":-0.5,"b":-1.25},{"a":-0.25,"b":-9999.0,"bytes:\\xc3":-2},{"bytes:\\xa9":-0.125}],"text_offset":[0,1,2]},)"
            R"("finish_reason":"stop","stop_reason":"END"}],"usage":)" + usage_ + "}");
}

TEST_F(OpenAiWriters, text_completion_chunks_with_echo) {
  const std::string head = R"(data: {"id":"x-\"1","object":"text_completion","created":7,"model":"m","system_fingerprint":"fp_0","choices":[)";
  std::vector<EchoedPrompt> prompts(1);
  prompts[0].echo = "q";
  CompletionWriter writer(style(), prompts, true, false);
  EXPECT_EQ(writer.begin(), "");
  EXPECT_EQ(writer.piece(0, {"b", {}}), head + R"({"index":0,"text":"q","logprobs":null,"finish_reason":null}]})" "\n\n" + head + R"({"index":0,"text":"b","logprobs":null,"finish_reason":null}]})" "\n\n");
  Ending ending;
  ending.finish = engine::Finish::stop;
  ending.stopped_by = engine::StopToken{9};
  EXPECT_EQ(writer.end(0, ending), head + R"({"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":9}]})" "\n\n");
}

TEST_F(OpenAiWriters, timings_have_llama_cpps_names) {
  AnswerStyle told = style();
  told.timings = true;
  Answer one = answer();
  one.ending.usage = {.prompt_tokens = 10, .cached_tokens = 2, .completion_tokens = 5, .prefill_us = 4000, .decode_us = 10000};
  const Json timings = Json::parse(ChatWriter(told).whole(std::vector<Answer>{one}, kTotals))["timings"];
  EXPECT_EQ(timings, Json::parse(R"({"cache_n":2,"prompt_n":8,"prompt_ms":4.0,"prompt_per_token_ms":0.5,"prompt_per_second":2000.0,
                                     "predicted_n":5,"predicted_ms":10.0,"predicted_per_token_ms":2.0,"predicted_per_second":500.0})"));
}

}  // namespace
}  // namespace millrace::server
