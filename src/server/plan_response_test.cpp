// /v1/responses: from a body to a plan, and through the engine to an answer and the store.

#include "server/field_table.h"
#include "server/response_store.h"
#include "server/stored_responses.h"
#include "server/testing/planner_fixture.h"
#include "server/testing/script.h"

namespace millrace::server {
namespace {

using text::Json;

class ResponseTest : public testing::PlannerTest {
 protected:
  testing::Planner planner(const std::string& id = "r1") {
    return [this, id](const Json& body, RequestContext& own) {
      own.id = id;
      return plan_response(body, own, store_);
    };
  }
  std::string refusal(const std::string& body) { return PlannerTest::refusal(planner(), body); }
  HttpResponse ask(const std::string& body, const std::string& id = "r1") { return PlannerTest::ask(planner(id), body); }
  Json answer(const std::string& body, const std::string& id = "r1") {
    const HttpResponse response = ask(body, id);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  /// What the template made of a conversation.
  std::string prompt(const std::string& body) { return PlannerTest::prompt(planner(), body); }

  /// As a caller's text comes out of the vocabulary.
  std::string spelled(const std::string& said) const { return PlannerTest::spelled(tokenizer_.encode(said, text::Specials::as_text)); }

  ResponseStore store_;
};

TEST_F(ResponseTest, an_answer_says_what_was_asked) {
  const Json response = answer(R"({"model":"m","input":"hello","instructions":"be brief","max_output_tokens":4,"temperature":0.7,"metadata":{"a":"b"},"user":"u","ignore_eos":true})");
  EXPECT_EQ(response["id"], "resp_r1");
  EXPECT_EQ(response["created_at"], 1'764'460'800);
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(dump(response["incomplete_details"]), R"({"reason":"max_output_tokens"})");
  EXPECT_EQ(response["instructions"], "be brief");
  EXPECT_EQ(response["max_output_tokens"], 4);
  EXPECT_EQ(dump(response["temperature"]), "0.7");
  EXPECT_EQ(dump(response["top_p"]), "1");
  EXPECT_EQ(dump(response["metadata"]), R"({"a":"b"})");
  EXPECT_EQ(response["user"], "u");
  EXPECT_EQ(response["store"], true);
  EXPECT_EQ(response["output"][0]["id"], "msg_r1");
  EXPECT_EQ(response["output"][0]["content"][0]["logprobs"], Json::array());
  EXPECT_EQ(response["usage"]["output_tokens"], 4);
  for (const char* required : {"object", "model", "output", "parallel_tool_calls", "tool_choice", "tools", "error", "text", "truncation", "reasoning"})
    EXPECT_TRUE(response.contains(required)) << required;
}

TEST_F(ResponseTest, streamed_and_whole_say_the_same) {
  const std::string body = R"({"input":"hello","max_output_tokens":20,"seed":5,"top_logprobs":2,"include":["message.output_text.logprobs"])";
  const HttpResponse stream = ask(body + R"(,"stream":true})");
  const Json whole = answer(body + "}");
  const auto events = testing::read_events(stream.body);
  EXPECT_EQ(stream.content_type, "text/event-stream; charset=utf-8");
  Json last = events.back().data["response"];
  // The second found its prompt cached.
  last.erase("usage");
  Json same = whole;
  same.erase("usage");
  EXPECT_EQ(last, same);
  std::string text;
  std::size_t logprobs = 0;
  for (const auto& [name, data] : events)
    if (name == "response.output_text.delta") text += data["delta"].get<std::string>(), logprobs += data["logprobs"].size();
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  EXPECT_EQ(logprobs, whole["output"][0]["content"][0]["logprobs"].size());
  EXPECT_EQ(whole["output"][0]["content"][0]["logprobs"][0]["top_logprobs"].size(), 2U);
}

TEST_F(ResponseTest, items_become_messages) {
  EXPECT_EQ(prompt(R"({"input":"hi"})"), "<control>user hi <control>a ");
  EXPECT_EQ(prompt(R"({"instructions":"be","input":[{"role":"developer","content":"x"},
                       {"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
                       {"id":"msg_0","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"c","annotations":[]}]},
                       {"role":"user","content":"<control>"}]})"),
            "<control>system be <control>system x <control>user a b <control>assistant c <control>user  control  <control>a ")
      << "developer is read as system, parts are joined by a line break (here no letter), and nobody spells a control token";
}

TEST_F(ResponseTest, a_response_goes_on_from_a_stored_one) {
  const Json first = answer(R"({"input":"hello","instructions":"be","max_output_tokens":3})", "r1");
  const std::string said = spelled(first["output"][0]["content"][0]["text"]);
  EXPECT_EQ(prompt(R"({"input":"more","previous_response_id":"resp_r1"})"), "<control>user hello <control>assistant " + said + " <control>user more <control>a ")
      << "instructions are not carried over";
  const Json second = answer(R"({"input":"more","previous_response_id":"resp_r1","max_output_tokens":3})", "r2");
  EXPECT_EQ(second["previous_response_id"], "resp_r1");
  EXPECT_NE(prompt(R"({"input":"x","previous_response_id":"resp_r2"})").find("<control>user hello <control>assistant " + said + " <control>user more"), std::string::npos);
}

TEST_F(ResponseTest, a_streamed_response_is_stored_as_it_ended) {
  const HttpResponse stream = ask(R"({"input":"hello","max_output_tokens":3,"stream":true})");
  const RequestContext own = context();
  const auto stored = stored_response("resp_r1", {}, own, store_);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(Json::parse(*stored), testing::read_events(stream.body).back().data["response"]);
}

TEST_F(ResponseTest, store_false_keeps_nothing) {
  answer(R"({"input":"hello","max_output_tokens":3,"store":false})");
  EXPECT_EQ(store_.size().responses, 0U);
}

TEST_F(ResponseTest, a_previous_response_that_is_not_kept_is_openais_400) {
  const HttpResponse response = ask(R"({"input":"more","previous_response_id":"resp_x"})");
  EXPECT_EQ(response.status, 400);
  const Json error = Json::parse(response.body)["error"];
  EXPECT_EQ(error["code"], "previous_response_not_found");
  EXPECT_EQ(error["param"], "previous_response_id");
  EXPECT_EQ(error["message"], "previous_response_id: no response \"resp_x\" is kept");
}

TEST_F(ResponseTest, another_tenants_response_is_not_there) {
  answer(R"({"input":"hello","max_output_tokens":3})");
  tenant_.name = "other";
  EXPECT_EQ(ask(R"({"input":"more","previous_response_id":"resp_r1"})").status, 400);
  EXPECT_EQ(to_api_error(stored_response("resp_r1", {}, context(), store_).error()).status, 404);
}

TEST_F(ResponseTest, each_refusal_names_its_path) {
  const auto refused = [&](const std::string& fields) { return refusal("{" + fields + "}"); };
  EXPECT_EQ(refused(R"("model":"m")"), "input: missing, expected a string or a list of items");
  EXPECT_EQ(refused(R"("input":5)"), "input: expected a string or a list of items, got 5");
  EXPECT_EQ(refused(R"("input":[])"), "input: expected a string or a list of items, got []");
  EXPECT_EQ(refused(R"("input":[null])"), "input[0]: expected an object, got null");
  EXPECT_EQ(refused(R"("input":[{}])"), "input[0].role: missing, expected a string");
  EXPECT_EQ(refused(R"("input":[{"role":5,"content":"a"}])"), "input[0].role: expected a string, got 5");
  EXPECT_EQ(refused(R"("input":[{"role":"wizard","content":"a"}])"), "input[0].role: expected one of user, assistant, system, developer; got \"wizard\"");
  EXPECT_EQ(refused(R"("input":[{"role":"user"}])"), "input[0].content: missing, expected a string or a list of parts");
  EXPECT_EQ(refused(R"("input":[{"role":"user","content":null}])"), "input[0].content: expected a string or a list of parts, got null");
  EXPECT_EQ(refused(R"("input":[{"role":"user","content":["a"]}])"), "input[0].content[0]: expected an object, got \"a\"");
  EXPECT_EQ(refused(R"("input":[{"role":"user","content":[{"type":"input_text"}]}])"), "input[0].content[0].text: missing, expected a string");
  std::string many = R"("input":[)";
  for (int i = 0; i < 100'001; ++i) many += i > 0 ? ",1" : "1";
  EXPECT_EQ(refused(many + "]"), "input: 100001 items, at most 100000 are possible");
  EXPECT_EQ(refused(R"("input":["a"])"), "input[0]: expected an object, got \"a\"");
  for (const char* part : {"input_image", "input_file", "input_audio", "refusal"})
    EXPECT_EQ(refused(fmt::format(R"("input":[{{"role":"user","content":[{{"type":"{}"}}]}}])", part)),
              fmt::format("input[0].content[0].type: expected input_text or output_text, others are not supported; got \"{}\"", part));
  for (const char* item : {"function_call", "function_call_output", "reasoning", "item_reference"})
    EXPECT_EQ(refused(fmt::format(R"("input":[{{"role":"user","content":"a"}},{{"type":"{}"}}])", item)),
              fmt::format("input[1].type: expected message, other items are not supported; got \"{}\"", item));

  const auto with = [&](const std::string& field) { return refused(R"("input":"a",)" + field).substr(0, 32); };
  EXPECT_EQ(with(R"("max_output_tokens":0)"), "max_output_tokens: expected an i");
  EXPECT_EQ(with(R"("max_output_tokens":-1)"), "max_output_tokens: expected an i");
  EXPECT_EQ(with(R"("temperature":"hot")"), "temperature: expected a number f");
  EXPECT_EQ(with(R"("tools":[{"type":"function","name":"f"}])"), "tools: not supported, got [{\"typ");
  EXPECT_EQ(with(R"("tool_choice":"required")"), "tool_choice: not supported, got ");
  EXPECT_EQ(with(R"("background":true)"), "background: not supported, got t");
  EXPECT_EQ(with(R"("text":{"format":{"type":"json_object"}})"), "text.format: not supported, got ");
  EXPECT_EQ(with(R"("conversation":"c")"), "conversation: not supported, got");
  EXPECT_EQ(with(R"("prompt":{"id":"p"})"), "prompt: not supported, got {\"id\"");
  EXPECT_EQ(with(R"("include":["nonsense"])"), "include[0]: expected message.out");
  EXPECT_EQ(with(R"("include":[7])"), "include[0]: expected message.out");
  EXPECT_EQ(with(R"("top_logprobs":21)"), "top_logprobs: expected an intege");
  EXPECT_EQ(with(R"("metadata":{"a":5})"), "metadata.a: expected a string of");
  EXPECT_EQ(with(fmt::format(R"("metadata":{{"{}":"x"}})", std::string(65, 'k'))), "metadata: a key has 65 bytes, at");
  EXPECT_EQ(with(R"("truncation":"middle")"), "truncation: expected one of disa");
  EXPECT_EQ(with(R"("previous_response_id":7)"), "previous_response_id: expected a");
  EXPECT_EQ(with(R"("chat_template_kwargs":{"messages":[]})"), "chat_template_kwargs: 'messages'");
}

TEST_F(ResponseTest, null_is_as_good_as_absent_in_each_field) {
  Json body = {{"input", "a"}};
  for (const Field& field : fields())
    if ((field.bodies & kResponse) != 0 && !body.contains(field.name) && std::string_view(field.name).find('.') == std::string_view::npos) body[field.name] = nullptr;
  body["max_output_tokens"] = 3;
  const Json absent = answer(R"({"input":"a","max_output_tokens":3,"seed":99})"), null = answer(dump(body));
  EXPECT_EQ(null["output"], absent["output"]);
  EXPECT_EQ(null["parallel_tool_calls"], true);
  EXPECT_EQ(null["tool_choice"], "auto");
  EXPECT_EQ(answer(R"({"input":"a","max_output_tokens":3,"tool_choice":"none","parallel_tool_calls":false})")["tool_choice"], "none");
}

TEST_F(ResponseTest, what_asks_for_nothing_is_accepted) {
  EXPECT_EQ(refusal(R"({"input":"a","tools":[],"tool_choice":"auto","parallel_tool_calls":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low"},
                       "background":false,"text":{"format":{"type":"text"},"verbosity":"low"},"truncation":"auto","metadata":null,"previous_response_id":null,"max_output_tokens":null,
                       "service_tier":"auto","stop":["x"],"top_k":5,"min_p":0.1,"stream_options":{"include_obfuscation":false}})"),
            "");
}

TEST_F(ResponseTest, what_does_not_fit_is_refused_with_the_numbers_and_auto_truncation_too) {
  const std::string long_input = std::string(static_cast<std::size_t>(model_.context_tokens), 'a');
  const auto code = [&](const std::string& body) { return dump(Json::parse(ask(body).body)["error"]["code"]); };
  EXPECT_NE(refusal(R"({"input":"a","max_output_tokens":1000000})").find("plus 1000000 new ones exceeds the context of"), std::string::npos);
  EXPECT_EQ(code(R"({"input":")" + long_input + "\"}"), "\"context_length_exceeded\"");
  EXPECT_EQ(code(R"({"truncation":"auto","input":")" + long_input + "\"}"), "\"context_length_exceeded\"");
  EXPECT_TRUE(refusal(R"({"truncation":"auto","input":")" + long_input + "\"}").starts_with("truncation: prompt of "));
}

TEST_F(ResponseTest, a_template_that_refuses_is_a_400_of_the_input) {
  use_template("{{ raise_exception('roles must alternate') }}");
  const auto made = plan(planner(), R"({"input":"a"})");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().where, "input");
  EXPECT_NE(made.error().message.find("input: the chat template refuses them: "), std::string::npos) << made.error().message;
  EXPECT_NE(made.error().message.find("roles must alternate"), std::string::npos);
}

TEST_F(ResponseTest, what_is_stored_can_be_read_listed_and_removed) {
  const Json first = answer(R"({"input":[{"role":"user","content":"one"},{"role":"user","content":"two"}],"max_output_tokens":3})", "r1");
  const Json second = answer(R"({"input":"three","previous_response_id":"resp_r1","max_output_tokens":3})", "r2");
  const RequestContext own = context();
  EXPECT_EQ(Json::parse(*stored_response("resp_r2", {}, own, store_)), second);

  const auto list = [&](const Query& query) { return Json::parse(*list_input_items("resp_r2", query, own, store_)); };
  const auto ids = [](const Json& page) {
    std::string out;
    for (const Json& item : page["data"]) out += item["id"].get<std::string>() + " ";
    return out;
  };
  EXPECT_EQ(ids(list({{"order", "asc"}})), "msg_r1_0 msg_r1_1 msg_r1 msg_r2_0 ");
  const Json newest = list({{"limit", "3"}});
  EXPECT_EQ(ids(newest), "msg_r2_0 msg_r1 msg_r1_1 ");
  EXPECT_EQ(newest["has_more"], true);
  EXPECT_EQ(newest["first_id"], "msg_r2_0");
  EXPECT_EQ(newest["last_id"], "msg_r1_1");
  const Json rest = list({{"limit", "3"}, {"after", "msg_r1_1"}});
  EXPECT_EQ(ids(rest), "msg_r1_0 ");
  EXPECT_EQ(rest["has_more"], false);
  EXPECT_EQ(dump(rest["data"][0]), R"({"type":"message","id":"msg_r1_0","status":"completed","role":"user","content":[{"type":"input_text","text":"one"}]})");
  EXPECT_EQ(list({{"after", "msg_r1_0"}})["first_id"], nullptr);

  const auto refused = [&](const Query& query) { return list_input_items("resp_r2", query, own, store_).error().message; };
  EXPECT_EQ(refused({{"limit", "0"}}), "limit: expected an integer from 1 to 100, got \"0\"");
  EXPECT_EQ(refused({{"limit", "1x"}}), "limit: expected an integer from 1 to 100, got \"1x\"");
  EXPECT_EQ(refused({{"order", "up"}}), "order: expected one of asc, desc; got \"up\"");
  EXPECT_EQ(refused({{"after", "x"}}), "after: no item \"x\" belongs to this response");
  EXPECT_EQ(stored_response("resp_r2", {{"stream", "true"}}, own, store_).error().where, "stream");

  EXPECT_EQ(*remove_response("resp_r2", own, store_), R"({"id":"resp_r2","object":"response","deleted":true})");
  EXPECT_EQ(remove_response("resp_r2", own, store_).error().message, "no response \"resp_r2\" is kept");
  EXPECT_EQ(list_input_items("resp_r2", {}, own, store_).error().code, Code::not_found);
}

}  // namespace
}  // namespace millrace::server
