// What Anthropic's clients send to /v1/messages and /v1/messages/count_tokens.

#include "server/field_rows.h"

namespace millrace::server {
namespace {

constexpr unsigned kBoth = kMessage | kCountTokens;
using enum Treatment;

constexpr Field kFields[] = {
    {"messages", kBoth, Kind::list, 1, 100'000, applied, "", R"([{"role":"user","content":"hi"}])", "the conversation: roles user and assistant, text or blocks of type text; a last one of the assistant's is continued"},
    {"system", kBoth, Kind::any, 0, 0, applied, "", R"("s")", "text, or blocks of type text"},
    {"max_tokens", kMessage, Kind::integer, 1, kMostInt, applied, "", "5", "most new tokens; must be there"},
    {"stop_sequences", kMessage, Kind::strings, 0, 16, applied, "", R"(["END"])", "up to 16 texts that end the answer before them"},
    {"temperature", kMessage, Kind::number, 0, 1, applied, "", "0.5", "0: the most likely token; absent: 1"},
    {"metadata", kMessage, Kind::object, 0, 16, ignored, "", R"({"user_id":"u"})", "an end user's name is for abuse reports; keys name tenants here"},
    {"service_tier", kMessage, Kind::string, 0, 64, ignored, "", R"("auto")", "there is one tier; see priority"},
    {"thinking", kBoth, Kind::object, 0, 16, refused, R"({"type":"disabled"} {"type":"adaptive"})", R"({"type":"enabled","budget_tokens":1024})", "thinking blocks are not built yet; adaptive leaves it to the model"},
    {"tools", kBoth, Kind::list, 0, 128, refused, "[]", R"([{"name":"f","input_schema":{"type":"object"}}])", "tool calls are not built yet"},
    {"tool_choice", kBoth, Kind::object, 0, 16, refused, R"({"type":"none"} {"type":"auto"})", R"({"type":"any"})", "without tools there is nothing to choose"},
    {"mcp_servers", kBoth, Kind::list, 0, 128, refused, "[]", R"([{"type":"url","url":"x","name":"n"}])", "the server asks nobody"},
    {"container", kMessage, Kind::any, 0, 0, refused, "", R"("c")", "there are no containers"},
    {"output_config", kBoth, Kind::object, 0, 16, applied, "", R"({"effort":"low"})", "how the answer is shaped"},
    {"output_config.effort", kBoth, Kind::string, 0, 64, ignored, "", R"("low")", "templates that know efforts take them by chat_template_kwargs"},
    {"output_config.format", kBoth, Kind::object, 0, 16, refused, "", R"({"type":"json_schema","schema":{}})", "structured output is not built yet"},
    {"output_format", kBoth, Kind::object, 0, 16, refused, "", R"({"type":"json_schema","schema":{}})", "structured output is not built yet"},
    {"cache_control", kBoth, Kind::object, 0, 16, ignored, "", R"({"type":"ephemeral"})", "every prefix is found by its tokens, marked or not"},
    {"diagnostics", kMessage, Kind::object, 0, 16, ignored, "", R"({"previous_message_id":null})", "/cache/explain tells why a prefix was computed"},
    {"speed", kBoth, Kind::string, 0, 64, ignored, "", R"("standard")", "there is one speed; see priority"},
    {"inference_geo", kMessage, Kind::string, 0, 64, ignored, "", R"("eu")", "answers are made on this machine"},
    {"user_profile_id", kBoth, Kind::string, 0, 256, ignored, "", R"("p")", "an account at Anthropic's"},
    {"workspace_id", kBoth, Kind::string, 0, 256, ignored, "", R"("w")", "an account at Anthropic's"},
    {"context_management", kBoth, Kind::object, 0, 16, refused, "{}", R"({"edits":[{"type":"x"}]})", "the conversation is taken as it comes"},
};

}  // namespace

std::span<const Field> messages_fields() { return kFields; }

}  // namespace millrace::server
