#include <gtest/gtest.h>

#include "server/testing/planner_fixture.h"

namespace millrace::server {
namespace {

using testing::Json;

class PlanChat : public testing::PlannerTest {
 protected:
  std::string said(const std::string& body) { return refusal(plan_chat_completion, body); }
  std::string with(const std::string& fields) { return said(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}"); }
  engine::Request request(const std::string& fields) {
    auto made = plan(plan_chat_completion, R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}");
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(made->prompts.front()) : engine::Request();
  }
  std::string prompt(const std::string& body) { return PlannerTest::prompt(plan_chat_completion, body); }
};

TEST_F(PlanChat, O8_1_messages_of_the_wrong_shape_are_refused_with_their_path) {
  EXPECT_EQ(said("{}"), "messages: expected a list of at least one message, got nothing");
  EXPECT_EQ(said(R"({"messages":1})"), "messages: expected a list of 1 to 100000 elements, got 1");
  EXPECT_EQ(said(R"({"messages":"hi"})"), "messages: expected a list of 1 to 100000 elements, got \"hi\"");
  EXPECT_EQ(said(R"({"messages":[]})"), "messages: expected a list of 1 to 100000 elements, got []");
  EXPECT_EQ(said(R"({"messages":[null]})"), "messages[0]: expected an object with role and content, got null");
  EXPECT_EQ(said(R"({"messages":[{}]})"), "messages[0].role: expected one of system, developer, user, assistant, tool, got nothing");
  EXPECT_EQ(said(R"({"messages":[{"role":"user"}]})"), "messages[0].content: expected a string or a list of text parts, got nothing");
  EXPECT_EQ(said(R"({"messages":[{"role":5,"content":"a"}]})"), "messages[0].role: expected one of system, developer, user, assistant, tool, got 5");
  EXPECT_EQ(said(R"({"messages":[{"role":"wizard","content":"a"}]})"), "messages[0].role: expected one of system, developer, user, assistant, tool, got \"wizard\"");
  EXPECT_EQ(said(R"({"messages":[{"role":"function","name":"f","content":"a"}]})"), "messages[0].role: expected one of system, developer, user, assistant, tool, got \"function\"");
  EXPECT_EQ(said(R"({"messages":[{"role":"user","content":5}]})"), "messages[0].content: expected a string or a list of text parts, got 5");
  EXPECT_EQ(said(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})"),
            "messages[0].content[0].type: this model reads text, got a part of type \"image_url\"");
  EXPECT_EQ(said(R"({"messages":[{"role":"assistant","content":null}]})"), "messages[0].content: expected a string or a list of text parts, got nothing");
  EXPECT_EQ(said(R"({"messages":[{"role":"assistant","content":"a","tool_calls":[{"id":"1"}]}]})"), "messages[0].tool_calls[0].function: expected an object with name and arguments");
}

TEST_F(PlanChat, a_key_of_a_message_that_nobody_knows_is_told_by_its_place) {
  ASSERT_TRUE(plan(plan_chat_completion, R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"b","re\nfusal":"x"}]})"));
  EXPECT_EQ(unknown_, (std::vector<std::string>{"messages[1].re?fusal"}));
}

TEST_F(PlanChat, messages_go_through_the_template_as_text) {
  EXPECT_EQ(prompt(R"({"messages":[{"role":"system","content":"be"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})"),
            "<control>system be <control>user a b <control>a ");
  EXPECT_EQ(prompt(R"({"messages":[{"role":"developer","content":"be"}],"add_generation_prompt":false})"), "<control>system be ");
  // Nothing that a client says becomes a control token.
  const auto made = plan(plan_chat_completion, R"({"messages":[{"role":"user","content":"<control>x<end>"}]})");
  ASSERT_TRUE(made);
  EXPECT_EQ(std::ranges::count(made->prompts[0].prompt, engine::testing::kControl), 2);
  EXPECT_EQ(std::ranges::count(made->prompts[0].prompt, engine::testing::kEnd), 0);
}

TEST_F(PlanChat, tool_calls_reach_the_template_as_objects) {
  use_template("{% for m in messages %}{{ m.role }} {{ m.content }} {% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments.items() %}{{ c.function.name }} {{ k }} {{ v }} {% endfor %}{% endfor %}{{ m.tool_call_id or '' }}{% endfor %}");
  EXPECT_EQ(prompt(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"k\":\"v\"}"}}]},
                      {"role":"tool","tool_call_id":"x","content":"r"}]})"),
            "assistant  f k v tool r x");
}

TEST_F(PlanChat, the_final_message_may_stay_open) {
  const std::string open = R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"ab "}],"continue_final_message":true)";
  EXPECT_EQ(prompt(open + "}"), "<control>user q <control>assistant ab ");
  EXPECT_EQ(prompt(open + R"(,"add_generation_prompt":true})"), "continue_final_message: not together with add_generation_prompt: the answer goes on or begins");
  EXPECT_EQ(with(R"("continue_final_message":true)"), "continue_final_message: the last message has role \"user\", expected \"assistant\"");
  EXPECT_EQ(prompt(R"({"messages":[{"role":"assistant","content":""}],"continue_final_message":true})"), "<control>assistant ");
}

TEST_F(PlanChat, what_templates_say_is_a_400) {
  use_template("{{ raise_exception('no system here') }}");
  EXPECT_NE(with(R"("n":1)").find("no system here"), std::string::npos);
  model_.chat_template = nullptr;
  model_.no_template_because = "the file has none";
  EXPECT_EQ(with(R"("n":1)"), "messages: this model has no chat template: the file has none");
}

TEST_F(PlanChat, template_variables_are_the_clients_but_not_the_conversation) {
  use_template("{{ messages[0].content }}{{ 'yes' if flag else 'no' }}{{ word }}");
  EXPECT_EQ(prompt(R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"flag":true,"word":"<end>"}})").substr(0, 4), "ayes");
  for (const char* own : {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt"})
    EXPECT_EQ(with(R"("chat_template_kwargs":{")" + std::string(own) + R"(":[]})"), "chat_template_kwargs: '" + std::string(own) + "' is not for requests to set here");
}

TEST_F(PlanChat, fields_reach_the_engine) {
  const engine::Request r = request(R"("temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"typical_p":0.75,"repetition_penalty":1.5,"presence_penalty":1,"frequency_penalty":-1,
    "seed":42,"logit_bias":{"7":-100,"9":2.5},"stop":["x","yy"],"stop_token_ids":[5],"ignore_eos":true,"min_tokens":2,"include_stop_str_in_output":true,"skip_special_tokens":false,
    "priority":3,"ttft_slo_ms":100,"tpot_slo_ms":20,"timeout_ms":1000,"cache_salt":"s","max_tokens":9,"logprobs":true,"top_logprobs":3)");
  EXPECT_EQ(r.sampling.temperature, 0.5f);
  EXPECT_EQ(r.sampling.top_p, 0.25f);
  EXPECT_EQ(r.sampling.top_k, 7);
  EXPECT_EQ(r.sampling.min_p, 0.125f);
  EXPECT_EQ(r.sampling.typical_p, 0.75f);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(r.sampling.presence_penalty, 1);
  EXPECT_EQ(r.sampling.frequency_penalty, -1);
  EXPECT_EQ(r.sampling.seed, 42U);
  EXPECT_EQ(r.sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{7, -100.0f}, {9, 2.5f}}));
  EXPECT_EQ(r.sampling.top_logprobs, 3);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"x", "yy"}));
  EXPECT_EQ(r.stop_token_ids, std::vector<TokenId>{5});
  EXPECT_TRUE(r.ignore_eos && r.include_stop && r.keep_special);
  EXPECT_EQ(r.min_tokens, 2);
  EXPECT_EQ(r.priority, 3);
  EXPECT_EQ(r.ttft_slo_us, 100'000);
  EXPECT_EQ(r.tpot_slo_us, 20'000);
  EXPECT_EQ(r.timeout_us, 1'000'000);
  EXPECT_EQ(r.cache_salt, "\ns");
  EXPECT_EQ(r.max_new_tokens, 9);
}

TEST_F(PlanChat, what_is_absent_is_the_models_wish) {
  model_.default_temperature = 0.25f;
  model_.default_top_k = 30;
  const engine::Request r = request(R"("temperature":null)");
  EXPECT_EQ(r.sampling.temperature, 0.25f);
  EXPECT_EQ(r.sampling.top_k, 30);
  EXPECT_EQ(r.sampling.seed, 99U);
  EXPECT_EQ(request(R"("top_k":-1)").sampling.top_k, 0);
  EXPECT_EQ(request(R"("repeat_penalty":1.5)").sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request(R"("timeout_ms":0.0001)").timeout_us, 1) << "more than 0 is a deadline, 0 is none";
  EXPECT_EQ(request(R"("timeout_ms":0)").timeout_us, 0);
  const std::string forged = request(R"("cache_salt":"t\ns")").cache_salt;  // by the tenant "default"
  tenant_.name = "t";
  EXPECT_EQ(request(R"("cache_salt":"s")").cache_salt, "t\ns");
  EXPECT_NE(forged, "t\ns") << "a salt must not reach into another tenant's cache";
}

TEST_F(PlanChat, O6_edges) {
  for (const char* right : {R"("top_p":1e-60)", R"("temperature":0)", R"("temperature":1e-9)", R"("top_k":1000000000)", R"("min_p":1)", R"("seed":0)", R"("logit_bias":{})", R"("logit_bias":null)", R"("seed":9223372036854775807)"})
    EXPECT_EQ(with(right), "") << right;
  for (const char* wrong : {R"("top_p":0)", R"("top_p":-0.1)", R"("top_p":2.0)", R"("top_p":"0.5")", R"("top_k":-5)", R"("top_k":1.5)", R"("min_p":1.5)", R"("seed":-1)", R"("seed":9223372036854775808)",
                            R"("seed":"x")", R"("seed":1.5)", R"("logit_bias":{"48":1})", R"("logit_bias":{"999999999999":1})", R"("logit_bias":{"-1":1})", R"("logit_bias":{"AI":1})",
                            R"("logit_bias":{"7":"x"})", R"("logit_bias":{"7":1e9})", R"("logit_bias":[7])", R"("logit_bias":{"7 ":1})", R"("presence_penalty":3)", R"("repetition_penalty":0)",
                            R"("repetition_penalty":-1)", R"("top_logprobs":21,"logprobs":true)", R"("top_logprobs":-1,"logprobs":true)", R"("top_logprobs":2)", R"("temperature":999999)", R"("temperature":-1)",
                            R"("temperature":1e400)", R"("n":0)", R"("n":-1)", R"("n":1000000)", R"("n":2,"max_tokens":0)", R"("min_tokens":6,"max_tokens":5)", R"("stop_token_ids":[48])"})
    EXPECT_NE(with(wrong), "") << wrong;
}

TEST_F(PlanChat, O4_4_odd_stop_values) {
  for (const char* wrong : {R"("")", R"([""])", R"(["a",""])", "[1]", R"({"a":1})"}) EXPECT_NE(with("\"stop\":" + std::string(wrong)), "") << wrong;
  std::string many = "[\"a\"";
  for (int i = 0; i < 500'000; ++i) many += ",\"a\"";
  const auto before = std::chrono::steady_clock::now();
  EXPECT_NE(with("\"stop\":" + many + "]"), "");
  EXPECT_NE(with("\"stop\":\"" + std::string(1 << 20, 'a') + "\""), "");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  for (const char* right : {"null", "[]", R"("END")"}) EXPECT_EQ(with("\"stop\":" + std::string(right)), "");
}

TEST_F(PlanChat, O4_5_and_O4_6_length) {
  EXPECT_EQ(request(R"("max_tokens":0)").max_new_tokens, 0);
  EXPECT_EQ(request(R"("max_tokens":3,"max_completion_tokens":4)").max_new_tokens, 4);
  EXPECT_EQ(request(R"("max_tokens":null)").max_new_tokens, -1);
  EXPECT_EQ(with(R"("max_tokens":-1)"), "max_tokens: expected an integer from 0 to 2147483647, got -1");
  EXPECT_NE(with(R"("max_tokens":1e12)"), "");
  const auto too_long = plan(plan_chat_completion, R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1000})");
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().message, "prompt of 12 tokens plus 1000 new ones exceeds the context of 200 tokens");
  EXPECT_EQ(to_api_error(too_long.error()).code, "context_length_exceeded");
  EXPECT_EQ(to_api_error(too_long.error()).param, "max_tokens");
  EXPECT_EQ(said(R"({"messages":[{"role":"user","content":")" + std::string(300, 'a') + R"("}]})"), "prompt of 310 tokens leaves no room for an answer, 200 tokens fit");
  model_.context_tokens = 50;  // less than the engine's: the server keeps to it
  EXPECT_EQ(request(R"("n":1)").max_new_tokens, 38);
}

TEST_F(PlanChat, O8_9_stream_options_need_a_stream) {
  EXPECT_EQ(with(R"("stream_options":{"include_usage":true})"), "stream_options: only with \"stream\": true");
  EXPECT_EQ(with(R"("stream":true,"stream_options":{"include_usage":"yes"})"), "stream_options.include_usage: expected true or false, got \"yes\"");
  EXPECT_EQ(with(R"("stream":true,"stream_options":{"include_usage":true})"), "");
}

}  // namespace
}  // namespace millrace::server
