// Requests through planner, engine and writer, over an engine without a model: what a client reads.

#include "server/generation.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "engine/testing/reference.h"
#include "server/testing/planner_fixture.h"

namespace millrace::server {
namespace {

using namespace std::chrono_literals;
using testing::Json;

/// The events of a stream; the last is "[DONE]" or an error.
std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(body.compare(at, 6, "data: "), 0);
    if (end == std::string::npos) break;
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

/// A stream as the body that it should have been.
struct Joined {
  std::map<int, std::string> text, finish;
  std::map<int, Json> tokens;
  Json usage;
  bool done = false;
};

Joined join(const std::string& body) {
  Joined joined;
  std::string id;
  for (const std::string& event : events_of(body)) {
    EXPECT_FALSE(joined.done);
    if (event == "[DONE]") {
      joined.done = true;
      continue;
    }
    const Json chunk = Json::parse(event);
    EXPECT_TRUE(id.empty() || id == chunk["id"]);
    id = chunk["id"];
    if (chunk.contains("usage") && !chunk["usage"].is_null()) {
      EXPECT_TRUE(chunk["choices"].empty() && joined.usage.is_null());
      joined.usage = chunk["usage"];
    }
    for (const Json& choice : chunk["choices"]) {
      const int index = choice["index"];
      EXPECT_FALSE(joined.finish.contains(index)) << "a chunk follows the last one of its choice";
      if (choice.contains("delta")) {
        if (!joined.text.contains(index)) {
          EXPECT_EQ(choice["delta"]["role"], "assistant");
        }
        joined.text[index] += choice["delta"].value("content", "");
        if (!choice["logprobs"].is_null())
          for (const Json& token : choice["logprobs"]["content"]) joined.tokens[index].push_back(token);
      } else {
        joined.text[index] += choice["text"].get<std::string>();
        if (!choice["logprobs"].is_null())
          for (const auto& [key, list] : choice["logprobs"].items())
            for (const Json& one : list) joined.tokens[index][key].push_back(one);
      }
      if (!choice["finish_reason"].is_null()) joined.finish[index] = choice["finish_reason"];
    }
  }
  return joined;
}

class GenerationTest : public testing::PlannerTest {
 protected:
  Json whole(testing::Planner planner, const std::string& body) {
    const HttpResponse response = ask(planner, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  /// Both ways say the same; returns the whole body.
  Json same(testing::Planner planner, const std::string& fields) {
    const Json body = whole(planner, "{" + fields + "}");
    const HttpResponse response = ask(planner, "{" + fields + R"(,"stream":true,"stream_options":{"include_usage":true}})");
    const Joined stream = join(response.body);
    EXPECT_TRUE(stream.done);
    EXPECT_EQ(stream.finish.size(), body["choices"].size());
    for (std::size_t i = 0; i < body["choices"].size(); ++i) {
      const Json& choice = body["choices"][i];
      const int index = static_cast<int>(i);
      EXPECT_EQ(choice["index"], index);
      EXPECT_EQ(stream.text.at(index), choice.contains("message") ? choice["message"]["content"] : choice["text"]);
      EXPECT_EQ(stream.finish.at(index), choice["finish_reason"]);
      const bool told = stream.tokens.contains(index);
      if (choice["logprobs"].is_null()) {
        EXPECT_FALSE(told);
      } else if (choice.contains("message")) {
        EXPECT_EQ(told ? stream.tokens.at(index) : Json::array(), choice["logprobs"]["content"]);
      } else if (told) {
        EXPECT_EQ(stream.tokens.at(index), choice["logprobs"]);
      }
    }
    Json usage = stream.usage, whole_usage = body["usage"];
    usage.erase("prompt_tokens_details"), whole_usage.erase("prompt_tokens_details");  // the second finds the first one's prefix
    EXPECT_EQ(usage, whole_usage);
    return body;
  }
};

TEST_F(GenerationTest, an_answer_is_the_engines_and_a_stream_says_the_same) {
  engine::Request request;
  request.prompt = {10, 11};
  request.max_new_tokens = 40;
  request.ignore_eos = true;
  request.sampling.seed = 5;
  const auto alone = engine::testing::answer_alone(request, tokenizer_);
  const Json body = same(plan_completion, R"("prompt":"ab","max_tokens":40,"ignore_eos":true,"seed":5)");
  EXPECT_EQ(body["choices"][0]["text"], alone.text);
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(body["usage"]["completion_tokens"], 40);
  EXPECT_EQ(body["usage"]["total_tokens"], 42);
}

TEST_F(GenerationTest, the_head_of_a_stream_and_what_the_record_is_told) {
  ask(plan_chat_completion, R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5,"ignore_eos":true,"stream":true})");
  EXPECT_TRUE(exchange_->streams_);
  EXPECT_EQ(exchange_->response_.content_type, "text/event-stream; charset=utf-8");
  EXPECT_EQ(record_->said_, "read 12 1 5 true;ended length;");
  EXPECT_EQ(record_->tokens_, 5);
}

TEST_F(GenerationTest, O8_10_several_answers_and_prompts) {
  const Json body = same(plan_completion, R"("prompt":["ab","cd"],"n":3,"max_tokens":20,"ignore_eos":true,"seed":7)");
  ASSERT_EQ(body["choices"].size(), 6U);
  EXPECT_NE(body["choices"][0]["text"], body["choices"][1]["text"]);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(body["usage"]["completion_tokens"], 120);
  const Json greedy = same(plan_completion, R"("prompt":"ab","n":3,"max_tokens":20,"temperature":0)");
  EXPECT_EQ(greedy["choices"][0]["text"], greedy["choices"][2]["text"]);
}

TEST_F(GenerationTest, O4_1_stop_strings_never_leak) {
  const std::string text = whole(plan_completion, R"({"prompt":"ab","max_tokens":60,"ignore_eos":true,"seed":5})")["choices"][0]["text"];
  std::size_t at = 10;
  while ((static_cast<unsigned char>(text[at]) & 0x80) != 0 || (static_cast<unsigned char>(text[at + 1]) & 0x80) != 0 || (static_cast<unsigned char>(text[at + 2]) & 0x80) != 0) ++at;
  const std::string stop = text.substr(at, 3);
  const std::string fields = R"("prompt":"ab","max_tokens":60,"ignore_eos":true,"seed":5,"stop":["never seen",)" + Json(stop).dump() + "]";
  const Json body = same(plan_completion, fields);
  EXPECT_EQ(body["choices"][0]["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][0]["stop_reason"], stop);
  const Json kept = same(plan_completion, fields + R"(,"include_stop_str_in_output":true)");
  EXPECT_EQ(kept["choices"][0]["text"], text.substr(0, text.find(stop) + 3));
}

TEST_F(GenerationTest, O6_7_log_probabilities_come_with_the_tokens) {
  const Json body = same(plan_chat_completion, R"("messages":[{"role":"user","content":"hi"}],"max_tokens":30,"ignore_eos":true,"seed":3,"logprobs":true,"top_logprobs":2)");
  const Json& tokens = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(tokens.size(), 30U);
  for (const Json& token : tokens) {
    EXPECT_EQ(token["top_logprobs"].size(), 2U);
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
  }
  const Json legacy = same(plan_completion, R"("prompt":"ab","max_tokens":30,"ignore_eos":true,"seed":3,"logprobs":2)")["choices"][0]["logprobs"];
  EXPECT_EQ(legacy["tokens"].size(), 30U);
  EXPECT_EQ(legacy["text_offset"].size(), 30U);
}

TEST_F(GenerationTest, echo_tells_of_the_prompt) {
  const Json body = same(plan_completion, R"("prompt":"abc","max_tokens":3,"ignore_eos":true,"seed":3,"echo":true,"logprobs":1)");
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["text"].get<std::string>().substr(0, 3), "abc");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 6U);
  EXPECT_TRUE(choice["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_LT(choice["logprobs"]["token_logprobs"][1].get<double>(), 0);
  EXPECT_EQ(choice["logprobs"]["text_offset"][3], 3);
  const Json none = same(plan_completion, R"("prompt":"abc","max_tokens":0,"echo":true)");
  EXPECT_EQ(none["choices"][0]["text"], "abc");
  EXPECT_EQ(none["choices"][0]["finish_reason"], "length");

  const Json told = whole(plan_completion, R"({"prompt":"abc","max_tokens":1,"prompt_logprobs":1})");
  const Json& list = told["choices"][0]["prompt_logprobs"];
  ASSERT_EQ(list.size(), 3U);
  EXPECT_TRUE(list[0].is_null());
  EXPECT_EQ(list[1]["11"]["decoded_token"], "b");
}

TEST_F(GenerationTest, O4_5_no_tokens_are_an_empty_answer) {
  const Json body = same(plan_chat_completion, R"("messages":[{"role":"user","content":"hi"}],"max_tokens":0)");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
}

TEST_F(GenerationTest, streams_and_whole_answers_agree_on_300_random_requests) {
  std::mt19937 random(20261130);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int length = 1 + pick(20); length > 0; --length) text += static_cast<char>('a' + pick(26));
    const bool chat = pick(2) == 0;
    std::string fields = chat ? R"("messages":[{"role":"user","content":")" + text + "\"}]" : "\"prompt\":\"" + text + "\"";
    fields += fmt::format(R"(,"seed":{},"max_tokens":{},"n":{},"temperature":{})", i, 1 + pick(30), 1 + pick(3), pick(3) * 0.5);
    if (pick(2) == 0) fields += ",\"ignore_eos\":true";
    if (pick(3) == 0) fields += fmt::format(R"(,"stop":["{}","STOP"])", static_cast<char>('a' + pick(26)));
    if (pick(3) == 0) fields += chat ? R"(,"logprobs":true,"top_logprobs":2)" : ",\"logprobs\":2";
    if (pick(4) == 0) fields += ",\"skip_special_tokens\":false";
    SCOPED_TRACE(fields);
    same(chat ? plan_chat_completion : plan_completion, fields);
    if (HasFailure()) return;
  }
}

TEST_F(GenerationTest, progress_is_told_where_it_is_asked_for) {
  const auto told = [&](const char* asked) {
    start({.step_time = 5ms}, {.step_tokens = 4, .check_invariants = true});  // slow enough for some of it to be read before the first token
    const std::string body = fmt::format(R"({{"prompt":"{}","max_tokens":2,"ignore_eos":true,"stream":true,"return_progress":{}}})", std::string(120, 'a'), asked);
    std::vector<Json> progress;
    for (const std::string& event : events_of(ask(plan_completion, body).body))
      if (event != "[DONE]" && Json::parse(event).contains("prompt_progress")) progress.push_back(Json::parse(event)["prompt_progress"]);
    return progress;
  };
  EXPECT_TRUE(told("false").empty());
  const std::vector<Json> progress = told("true");
  ASSERT_FALSE(progress.empty());
  int before = 0;
  for (const Json& one : progress) {
    EXPECT_EQ(one["total"], 120);
    EXPECT_GT(one["processed"], before);
    before = one["processed"];
  }
  EXPECT_LT(before, 120);
}

TEST_F(GenerationTest, O8_8_what_the_engine_refuses_is_a_whole_response) {
  start({.blocks = 10, .block_tokens = 4});
  const HttpResponse response = ask(plan_completion, R"({"prompt":"abc","max_tokens":100,"stream":true})");
  EXPECT_EQ(response.status, 400);
  EXPECT_FALSE(exchange_->streams_);
  EXPECT_EQ(Json::parse(response.body)["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(record_->said_, "read 3 1 100 true;refused 400 too_long;");
}

TEST_F(GenerationTest, a_full_queue_is_a_429_with_a_time_to_come_again) {
  start({.step_time = 2ms}, {.max_running = 1, .max_queued = 2});
  const HttpResponse response = ask(plan_completion, R"({"prompt":["a","b","c","d","e"],"max_tokens":50,"ignore_eos":true})");
  EXPECT_EQ(response.status, 429);
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers[0].name, "retry-after");
  EXPECT_NE(record_->said_.find("refused 429 queue_full;"), std::string::npos);
  for (int i = 0; i < 100 && engine_->metrics().running.value() + engine_->metrics().waiting.value() > 0; ++i) exchange_->run_one(10ms);
  EXPECT_EQ(engine_->metrics().running.value(), 0);  // those that were taken are not run for nobody
}

TEST_F(GenerationTest, O8_8_a_fault_in_mid_stream_is_an_event_and_then_the_end) {
  start({.step_time = 5ms, .fails = [](int step) { return step == 20; }});  // slow enough for some tokens to be told before
  const HttpResponse response = ask(plan_completion, R"({"prompt":"ab","max_tokens":50,"ignore_eos":true,"stream":true})");
  EXPECT_EQ(response.status, 200);
  const auto events = events_of(response.body);
  ASSERT_GT(events.size(), 1U);
  EXPECT_EQ(Json::parse(events.back())["error"]["type"], "server_error");
  start({.fails = [](int step) { return step == 5; }});
  EXPECT_EQ(ask(plan_completion, R"({"prompt":"ab","max_tokens":50,"ignore_eos":true})").status, 503);
}

TEST_F(GenerationTest, time_that_is_up_is_a_408_or_an_event) {
  start({.step_time = 5ms});
  EXPECT_EQ(ask(plan_completion, R"({"prompt":"ab","max_tokens":150,"ignore_eos":true,"timeout_ms":60})").status, 408);
  const auto events = events_of(ask(plan_completion, R"({"prompt":"ab","max_tokens":150,"ignore_eos":true,"timeout_ms":60,"stream":true})").body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(Json::parse(events.back())["error"]["type"], "timeout_error");
}

TEST_F(GenerationTest, O12_3_an_answer_that_a_drain_cuts_says_so) {
  start({.step_time = 5ms});
  auto made = plan(plan_completion, R"({"prompt":"ab","max_tokens":150,"ignore_eos":true,"stream":true})");
  exchange_ = std::make_shared<testing::FakeExchange>();
  start_generation(*engine_, *std::move(made), exchange_, record_ = std::make_shared<testing::FakeRecord>());
  while (exchange_->writes_ == 0) ASSERT_TRUE(exchange_->run_one());
  EXPECT_EQ(engine_->drain(10ms), 1);
  const auto events = events_of(exchange_->answer().body);
  EXPECT_NE(events.back().find("shutting down"), std::string::npos);
  EXPECT_EQ(ask(plan_completion, R"({"prompt":"ab"})").status, 503);
}

TEST_F(GenerationTest, O8_6_a_client_that_goes_ends_all_its_answers) {
  start({.step_time = 2ms});
  for (const char* stream : {"true", "false"}) {
    auto made = plan(plan_completion, R"({"prompt":["ab","cd"],"n":2,"max_tokens":150,"ignore_eos":true,"stream":)" + std::string(stream) + "}");
    exchange_ = std::make_shared<testing::FakeExchange>();
    start_generation(*engine_, *std::move(made), exchange_, record_ = std::make_shared<testing::FakeRecord>());
    while (record_->tokens_ == 0) ASSERT_TRUE(exchange_->run_one());
    exchange_->leave();
    while (record_->ended_ < 4) ASSERT_TRUE(exchange_->run_one());
    EXPECT_EQ(exchange_->answers_, 0);
    EXPECT_LT(record_->tokens_, 4 * 150);
    EXPECT_NE(record_->said_.find("ended cancelled;ended cancelled;ended cancelled;ended cancelled;"), std::string::npos);
  }
  // Gone before it began: the engine is not asked at all.
  auto made = plan(plan_completion, R"({"prompt":"ab"})");
  exchange_ = std::make_shared<testing::FakeExchange>();
  exchange_->leave();
  start_generation(*engine_, *std::move(made), exchange_, record_ = std::make_shared<testing::FakeRecord>());
  ASSERT_TRUE(exchange_->run_one());
  EXPECT_EQ(record_->said_, "");
}

TEST_F(GenerationTest, a_generation_is_gone_when_its_answer_is) {
  std::weak_ptr<testing::FakeExchange> exchange;
  ask(plan_completion, R"({"prompt":"ab","max_tokens":5,"n":2})");
  exchange = exchange_;
  while (exchange_->run_one(20ms)) {
  }
  exchange_.reset();
  for (int i = 0; i < 100 && !exchange.expired(); ++i) std::this_thread::sleep_for(10ms);  // the engine's thread may hold it for a moment
  EXPECT_TRUE(exchange.expired());
}

TEST_F(GenerationTest, what_is_stored_is_told_once_and_whole) {
  for (const bool stream : {false, true}) {
    auto made = plan(plan_completion, stream ? R"({"prompt":"ab","max_tokens":9,"ignore_eos":true,"seed":1,"stream":true})" : R"({"prompt":"ab","max_tokens":9,"ignore_eos":true,"seed":1})");
    int told = 0;
    made->on_complete = [&](std::span<const Answer> answers, const Totals& totals) {
      ++told;
      EXPECT_EQ(answers.size(), 1U);
      EXPECT_EQ(answers[0].tokens.size(), 9U);
      EXPECT_EQ(totals.completion_tokens, 9);
    };
    exchange_ = std::make_shared<testing::FakeExchange>();
    start_generation(*engine_, *std::move(made), exchange_, record_ = std::make_shared<testing::FakeRecord>());
    exchange_->answer();
    EXPECT_EQ(told, 1);
  }
}

}  // namespace
}  // namespace millrace::server
