// What OpenAI's clients send to /v1/responses.

#include "server/field_rows.h"

namespace millrace::server {
namespace {

using enum Treatment;

constexpr Field kFields[] = {
    {"input", kResponse, Kind::any, 0, 0, applied, "", R"("hi")", "text, or a list of items: messages of text"},
    {"instructions", kResponse, Kind::string, 0, kAnyLength, applied, "", R"("be brief")", "a system message; not kept for what follows"},
    {"previous_response_id", kResponse, Kind::string, 1, 512, applied, "", R"("resp_0")", "the conversation goes on from there; 400 where it is not kept"},
    {"store", kResponse, Kind::boolean, 0, 0, applied, "", "false", "false: the answer is not kept; absent: true"},
    {"max_output_tokens", kResponse, Kind::integer, 1, kMostInt, applied, "", "5", "most new tokens; absent: what is left of the context"},
    {"metadata", kResponse, Kind::object, 0, 16, applied, "", R"({"a":"b"})", "comes back with the answer"},
    {"text", kResponse, Kind::object, 0, 16, applied, "", R"({"format":{"type":"text"}})", "how the text is shaped"},
    {"text.format", kResponse, Kind::object, 0, 16, refused, R"({"type":"text"})", R"({"type":"json_object"})", "structured output is not built yet"},
    {"text.verbosity", kResponse, Kind::choice, 0, 0, ignored, "low medium high", R"("low")", "the model has no such switch"},
    {"truncation", kResponse, Kind::choice, 0, 0, applied, "disabled auto", R"("disabled")", "what does not fit is refused, with auto, too: nothing is ever cut"},
    {"include", kResponse, Kind::list, 0, 32, applied, "", R"(["message.output_text.logprobs"])", "message.output_text.logprobs; OpenAI's other names belong to items that are never made here"},
    {"top_logprobs", kResponse, Kind::integer, 0, 20, applied, "", "2", "log-probabilities, and of so many of the likeliest"},
    {"stream_options", kResponse, Kind::object, 0, 16, applied, "", R"({"include_obfuscation":false})", "only with stream"},
    {"stream_options.include_obfuscation", kResponse, Kind::boolean, 0, 0, ignored, "", "true", "pads events against listeners on the wire; TLS is for the network's operator to set up"},
    {"tools", kResponse, Kind::list, 0, 128, refused, "[]", R"([{"type":"function","name":"f"}])", "tool calls are not built yet"},
    {"tool_choice", kResponse, Kind::any, 0, 0, refused, R"("none" "auto")", R"("required")", "without tools there is nothing to choose"},
    {"parallel_tool_calls", kResponse, Kind::boolean, 0, 0, ignored, "", "true", "says how tools are called, and no tools are"},
    {"max_tool_calls", kResponse, Kind::integer, 0, kMostInt, ignored, "", "1", "says how tools are called, and no tools are"},
    {"reasoning", kResponse, Kind::object, 0, 16, ignored, "", R"({"effort":"low"})", "templates that know efforts take them by chat_template_kwargs"},
    {"background", kResponse, Kind::boolean, 0, 0, refused, "false", "true", "an answer is made while somebody waits for it"},
    {"background_options", kResponse, Kind::object, 0, 16, ignored, "", R"({"completion_window":"soonest"})", "only with background"},
    {"context_management", kResponse, Kind::list, 0, 16, refused, "[]", R"([{"type":"compaction"}])", "the conversation is taken as it comes"},
    {"conversation", kResponse, Kind::any, 0, 0, refused, "", R"("conv_0")", "there are no stored conversations; see previous_response_id"},
    {"prompt", kResponse, Kind::object, 0, 16, refused, "", R"({"id":"p"})", "there are no stored prompts"},
    {"prompt_cache_options", kResponse, Kind::object, 0, 16, ignored, "", R"({"mode":"implicit"})", "prefixes stay as long as there is room"},
    {"moderation", kResponse, Kind::object, 0, 16, refused, "", R"({"model":"m"})", "nothing here judges texts"},
    {"image", kResponse, Kind::object, 0, 16, ignored, "", R"({"context_compression":"disabled"})", "says how images are kept, and no images are read"},
    {"access_programs", kResponse, Kind::object, 0, 16, ignored, "", R"({"cyber":"standard"})", "programs of OpenAI's"},
    {"service_tier", kResponse, Kind::string, 0, 64, ignored, "", R"("auto")", "there is one tier; see priority"},
};

}  // namespace

std::span<const Field> responses_fields() { return kFields; }

}  // namespace millrace::server
