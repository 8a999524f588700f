// /v1/messages: from a body to a plan, and through the engine to an answer.

#include "server/field_table.h"
#include "server/testing/planner_fixture.h"
#include "server/testing/script.h"

namespace millrace::server {
namespace {

using text::Json;

class MessageTest : public testing::PlannerTest {
 protected:
  std::string refusal(const std::string& fields) { return PlannerTest::refusal(plan_message, "{" + fields + "}"); }
  std::string prompt(const std::string& fields) { return PlannerTest::prompt(plan_message, R"({"max_tokens":5,)" + fields + "}"); }
};

constexpr const char* kHello = R"("messages":[{"role":"user","content":"hello"}])";

TEST_F(MessageTest, an_answer_is_a_message) {
  const HttpResponse response = ask(plan_message, fmt::format(R"({{"model":"m","max_tokens":4,"ignore_eos":true,{}}})", kHello));
  ASSERT_EQ(response.status, 200) << response.body;
  const Json message = Json::parse(response.body);
  EXPECT_EQ(message["id"], "msg_r1");
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["model"], "m");
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_EQ(message["stop_sequence"], nullptr);
  EXPECT_EQ(message["usage"]["output_tokens"], 4);
}

TEST_F(MessageTest, streamed_and_whole_say_the_same) {
  const std::string body = fmt::format(R"({{"max_tokens":20,"seed":5,{})", kHello);
  const Json whole = Json::parse(ask(plan_message, body + "}").body);
  const auto events = testing::read_events(ask(plan_message, body + R"(,"stream":true})").body);
  std::string text;
  for (const auto& [name, data] : events)
    if (name == "content_block_delta") text += data["delta"]["text"].get<std::string>();
  EXPECT_EQ(text, whole["content"][0]["text"]);
  ASSERT_GE(events.size(), 6U);
  const Json &start = events[0].data["message"], &delta = events[events.size() - 2].data;
  EXPECT_EQ(delta["delta"]["stop_reason"], whole["stop_reason"]);
  EXPECT_EQ(delta["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
  const auto input = [](const Json& usage) { return usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>(); };
  EXPECT_EQ(input(start["usage"]), input(whole["usage"]));
  EXPECT_EQ(input(delta["usage"]), input(whole["usage"])) << "the second time some of it is cached";
}

TEST_F(MessageTest, a_stop_sequence_is_named_and_not_told) {
  const std::string body = fmt::format(R"({{"max_tokens":60,"seed":3,"ignore_eos":true,{})", kHello);
  const std::string free = Json::parse(ask(plan_message, body + "}").body)["content"][0]["text"];
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::size_t at = free.size() / 2;
  while (at + 2 < free.size() && !(is_letter(free[at]) && is_letter(free[at + 1]))) ++at;
  const std::string stop = free.substr(at, 2);
  SCOPED_TRACE(free);
  const HttpResponse response = ask(plan_message, body + ",\"stop_sequences\":[\"zzzzzz\"," + dump(Json(stop)) + "]}");
  ASSERT_EQ(response.status, 200) << response.body;
  const Json message = Json::parse(response.body);
  EXPECT_EQ(message["stop_reason"], "stop_sequence");
  EXPECT_EQ(message["stop_sequence"], stop);
  EXPECT_EQ(message["content"][0]["text"], free.substr(0, free.find(stop)));
}

TEST_F(MessageTest, messages_become_the_templates) {
  EXPECT_EQ(prompt(kHello), "<control>user hello <control>a ");
  EXPECT_EQ(prompt(R"("system":"be","messages":[{"role":"user","content":"x"}])"), "<control>system be <control>user x <control>a ");
  EXPECT_EQ(prompt(R"("system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}],"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}])"),
            "<control>system a b <control>user x <control>a ");
  EXPECT_EQ(prompt(R"("messages":[{"role":"user","content":"x"},{"role":"user","content":"y"},{"role":"assistant","content":"z"},{"role":"user","content":"<control>"}])"),
            "<control>user x y <control>assistant z <control>user  control  <control>a ")
      << "neighbours of one role are one message";
}

TEST_F(MessageTest, a_last_message_of_the_assistants_is_continued) {
  EXPECT_EQ(prompt(R"("messages":[{"role":"user","content":"x"},{"role":"assistant","content":"sure"}])"), "<control>user x <control>assistant sure");
  use_template("{{ messages[0].content }}");
  EXPECT_EQ(prompt(R"("messages":[{"role":"user","content":"x"},{"role":"assistant","content":"sure"}])"),
            "messages: the chat template leaves out the last message, so that it cannot be continued");
}

TEST_F(MessageTest, each_refusal_names_its_path) {
  const std::string most = R"("max_tokens":5,)";
  EXPECT_EQ(refusal(kHello), "max_tokens: missing, expected an integer from 1 to 2147483647");
  EXPECT_EQ(refusal(R"("max_tokens":5)"), "messages: expected a list of at least one message, got nothing");
  EXPECT_EQ(refusal(most + R"("messages":"hi")").substr(0, 26), "messages: expected a list ");
  EXPECT_EQ(refusal(most + R"("messages":[])").substr(0, 26), "messages: expected a list ");
  EXPECT_EQ(refusal(most + R"("messages":[null])"), "messages[0]: expected an object with role and content, got null");
  EXPECT_EQ(refusal(most + R"("messages":[{}])"), "messages[0].role: expected one of user, assistant; got nothing");
  EXPECT_EQ(refusal(most + R"("messages":[{"role":"system","content":"a"}])"), "messages[0].role: expected one of user, assistant; got \"system\"");
  EXPECT_EQ(refusal(most + R"("messages":[{"role":"user"}])"), "messages[0].content: expected a string or a list of text blocks, got nothing");
  EXPECT_EQ(refusal(most + R"("messages":[{"role":"user","content":5}])"), "messages[0].content: expected a string or a list of text blocks, got 5");
  EXPECT_EQ(refusal(most + R"("messages":[{"role":"user","content":[{"text":"a"}]}])"), "messages[0].content[0].type: expected \"text\", other blocks are not supported; got nothing");
  EXPECT_EQ(refusal(most + R"("messages":[{"role":"user","content":[{"type":"text","text":7}]}])"), "messages[0].content[0].text: expected a string, got 7");
  for (const char* block : {"image", "document", "tool_use", "tool_result", "thinking"})
    EXPECT_EQ(refusal(most + fmt::format(R"("messages":[{{"role":"user","content":"a"}},{{"role":"user","content":[{{"type":"text","text":"a"}},{{"type":"{}"}}]}}])", block)),
              fmt::format("messages[1].content[1].type: expected \"text\", other blocks are not supported; got \"{}\"", block));
  EXPECT_EQ(refusal(most + R"("system":5,)" + kHello), "system: expected a string or a list of text blocks, got 5");

  const auto with = [&](const std::string& field) { return refusal(fmt::format("\"max_tokens\":5,{},{}", kHello, field)).substr(0, 28); };
  EXPECT_EQ(with(R"("temperature":1.5)"), "temperature: expected a numb") << "Anthropic's range ends at 1";
  EXPECT_EQ(with(R"("thinking":{"type":"enabled","budget_tokens":1024})"), "thinking: not supported, got");
  EXPECT_EQ(with(R"("tools":[{"name":"f"}])"), "tools: not supported, got [{");
  EXPECT_EQ(with(R"("tool_choice":{"type":"any"})"), "tool_choice: not supported, ");
  EXPECT_EQ(with(R"("mcp_servers":[{"url":"x"}])"), "mcp_servers: not supported, ");
  EXPECT_EQ(with(R"("container":"c")"), "container: not supported, go");
  EXPECT_EQ(with(R"("output_config":{"format":{"type":"json_schema"}})"), "output_config.format: not su");
  EXPECT_EQ(with(R"("stop_sequences":[5])"), "stop_sequences: expected a s");
  EXPECT_TRUE(refusal(fmt::format("\"max_tokens\":0,{}", kHello)).starts_with("max_tokens: expected an integer from 1"));
  EXPECT_NE(refusal(fmt::format("\"max_tokens\":1000000,{}", kHello)).find("plus 1000000 new ones exceeds the context of"), std::string::npos);
}

TEST_F(MessageTest, null_is_as_good_as_absent_in_each_field) {
  Json body = {{"max_tokens", 3}, {"messages", Json::parse(R"([{"role":"user","content":"hello"}])")}};
  for (const Field& field : fields())
    if ((field.bodies & kMessage) != 0 && !body.contains(field.name) && std::string_view(field.name).find('.') == std::string_view::npos) body[field.name] = nullptr;
  EXPECT_EQ(PlannerTest::refusal(plan_message, dump(body)), "");
}

TEST_F(MessageTest, an_error_is_told_in_anthropics_words_with_the_requests_id) {
  auto made = plan(plan_message, fmt::format(R"({{"max_tokens":3,{}}})", kHello));
  ASSERT_TRUE(made);
  engine_->drain(std::chrono::milliseconds(0));
  exchange_ = std::make_shared<testing::FakeExchange>();
  start_generation(*engine_, *std::move(made), exchange_, std::make_shared<testing::FakeRecord>());
  const HttpResponse response = exchange_->answer();
  EXPECT_EQ(response.status, 503);
  const Json body = Json::parse(response.body);
  EXPECT_EQ(body["type"], "error");
  EXPECT_EQ(body["error"]["type"], "overloaded_error");
  EXPECT_EQ(body["request_id"], "r1");
}

TEST_F(MessageTest, what_asks_for_nothing_is_accepted) {
  EXPECT_EQ(refusal(fmt::format(R"("max_tokens":5,{},"tools":[],"tool_choice":{{"type":"auto"}},"thinking":{{"type":"disabled"}},"metadata":{{"user_id":"u"}},"service_tier":"auto",
                                   "top_k":5,"top_p":0.9,"temperature":1,"stop_sequences":["x"],"mcp_servers":[],"cache_control":{{"type":"ephemeral"}},"output_config":{{"effort":"low"}})",
                                kHello)),
            "");
}

TEST_F(MessageTest, tokens_are_counted_as_they_would_be_used) {
  const auto body = parse_body(fmt::format(R"({{"model":"m","system":"be",{}}})", kHello));
  RequestContext own = context();
  const auto counted = count_message_tokens(*body, own);
  ASSERT_TRUE(counted) << counted.error().message;
  const HttpResponse response = ask(plan_message, fmt::format(R"({{"max_tokens":1,"system":"be",{}}})", kHello));
  EXPECT_EQ(*counted, Json::parse(response.body)["usage"]["input_tokens"]);
  EXPECT_FALSE(count_message_tokens(*parse_body(R"({"model":"m"})"), own));
}

}  // namespace
}  // namespace millrace::server
