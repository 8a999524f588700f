// What OpenAI's clients send to /v1/chat/completions, /v1/completions and /v1/embeddings, what vLLM and llama.cpp added, and
// what becomes of it here. What other bodies have in the very same way stands here, too.

#include "server/field_rows.h"

namespace millrace::server {
namespace {

constexpr unsigned kBoth = kChat | kCompletion;
constexpr unsigned kAll = kBoth | kResponse | kMessage;  // whatever generates
constexpr unsigned kEverywhere = kAll | kEmbedding | kCountTokens | kTokenize | kDetokenize | kApplyTemplate;
using enum Treatment;
constexpr double kMostSeed = 9223372036854775807.0, kMostMs = 1e9;

constexpr Field kFields[] = {
    // What is asked
    {"model", kEverywhere, Kind::string, 0, 1024, applied, "", R"("m")", "a served name; absent: the model that is served"},
    {"messages", kChat | kApplyTemplate, Kind::list, 1, 100'000, applied, "", R"([{"role":"user","content":"hi"}])", "the conversation: roles system, developer (read as system), user, assistant and tool"},
    {"prompt", kCompletion, Kind::prompt, 1, 1024, applied, "", R"("a")", "text, token ids, or a list of either; control tokens may be spelled in it"},
    {"suffix", kCompletion, Kind::string, 0, kAnyLength, applied, "", R"("")", "text behind the answer, where the vocabulary has fill-in-the-middle tokens; else refused"},
    {"echo", kCompletion, Kind::boolean, 0, 0, applied, "", "false", "the prompt stands before the answer"},
    {"input", kEmbedding, Kind::prompt, 1, 1024, applied, "", R"("a")", "what is embedded"},

    // How long
    {"max_tokens", kBoth, Kind::integer, 0, kMostInt, applied, "", "5", "most new tokens; 0: none; absent: what is left of the context. Prompt and max_tokens beyond the context are refused"},
    {"max_completion_tokens", kChat, Kind::integer, 0, kMostInt, applied, "", "5", "as max_tokens, over which it wins"},
    {"min_tokens", kBoth, Kind::integer, 0, kMostInt, applied, "", "2", "neither an end token nor a stop string ends the answer before"},
    {"stop", kBoth | kResponse, Kind::strings, 0, 16, applied, "", R"(["END"])", "up to 16 texts that end the answer before them"},
    {"stop_token_ids", kBoth | kResponse | kMessage, Kind::ids, 0, 64, applied, "", "[7]", "tokens that end the answer"},
    {"include_stop_str_in_output", kBoth, Kind::boolean, 0, 0, applied, "", "true", "the stop string stays in the text"},
    {"ignore_eos", kAll, Kind::boolean, 0, 0, applied, "", "true", "end tokens end nothing"},

    // How it is drawn
    {"temperature", kBoth | kResponse, Kind::number, 0, 100, applied, "", "0.5", "0: the most likely token; absent: the model's default, else 1"},
    {"top_p", kBoth | kResponse | kMessage, Kind::positive, 0, 1, applied, "", "0.9", "the likeliest tokens that together have this probability"},
    {"top_k", kAll, Kind::integer, -1, kMostInt, applied, "", "20", "the k likeliest tokens; 0 and -1: all"},
    {"min_p", kAll, Kind::number, 0, 1, applied, "", "0.1", "tokens at least so likely, relative to the likeliest"},
    {"typical_p", kAll, Kind::positive, 0, 1, applied, "", "0.5", "tokens whose surprise is nearest to the expected one, up to this probability; 1 is off"},
    {"repetition_penalty", kAll, Kind::positive, 0, 100, applied, "", "1.1", "over prompt and answer; 1 is off"},
    {"repeat_penalty", kAll, Kind::positive, 0, 100, applied, "", "1.1", "llama.cpp's name of repetition_penalty, which wins over it"},
    {"presence_penalty", kBoth | kResponse, Kind::number, -2, 2, applied, "", "0.5", "over tokens of the answer"},
    {"frequency_penalty", kBoth | kResponse, Kind::number, -2, 2, applied, "", "0.5", "over tokens of the answer, by how often they stand there"},
    {"logit_bias", kBoth, Kind::object, 0, 1024, applied, "", R"({"7":-100})", "added to logits, by token id; -100 to 100"},
    {"seed", kAll, Kind::integer, 0, kMostSeed, applied, "", "42", "the same seed gives the same answer, whoever else is served; absent: a random one"},
    {"n", kBoth, Kind::integer, 1, 128, applied, "", "2", "answers; the prompt is computed once"},
    {"best_of", kCompletion, Kind::integer, 1, 128, applied, "", "1", "must be n: answers are not ranked"},

    // What is told of it
    {"stream", kBoth | kResponse | kMessage, Kind::boolean, 0, 0, applied, "", "false", "server-sent events"},
    {"stream_options", kBoth, Kind::object, 0, 16, applied, "", R"({"include_usage":true})", "only with stream"},
    {"stream_options.include_usage", kBoth, Kind::boolean, 0, 0, applied, "", "true", "one more chunk, without choices, has the usage"},
    {"stream_options.include_obfuscation", kBoth, Kind::boolean, 0, 0, ignored, "", "true", "pads events against listeners on the wire; TLS is for the network's operator to set up"},
    {"logprobs", kChat, Kind::boolean, 0, 0, applied, "", "true", "log-probabilities of the answer's tokens"},
    {"top_logprobs", kChat, Kind::integer, 0, 20, applied, "", "0", "and of so many of the likeliest; only with logprobs"},
    {"logprobs", kCompletion, Kind::integer, 0, 20, applied, "", "2", "log-probabilities of the tokens and of so many of the likeliest"},
    {"prompt_logprobs", kBoth, Kind::integer, 0, 20, applied, "", "2", "log-probabilities of the prompt's own tokens and of so many of the likeliest there; not with stream or n"},
    {"timings", kBoth, Kind::boolean, 0, 0, applied, "", "true", "milliseconds and tokens per second beside the usage"},
    {"return_progress", kBoth, Kind::boolean, 0, 0, applied, "", "true", "chunks without choices say in prompt_progress how far the prompt has come; only with stream"},
    {"skip_special_tokens", kAll, Kind::boolean, 0, 0, applied, "", "true", "false: control tokens stay in the text"},

    // How the prompt is made
    {"add_generation_prompt", kChat | kTokenize | kApplyTemplate, Kind::boolean, 0, 0, applied, "", "true", "the template opens the assistant's turn"},
    {"continue_final_message", kChat | kApplyTemplate, Kind::boolean, 0, 0, applied, "", "false", "the answer goes on from the last message, which is the assistant's; not with add_generation_prompt: true"},
    {"chat_template_kwargs", kChat | kResponse | kMessage | kApplyTemplate, Kind::object, 0, 64, applied, "", R"({"enable_thinking":false})", "variables for the template; never its messages, tools or tokens"},
    {"documents", kChat | kApplyTemplate, Kind::list, 0, 1024, applied, "", R"([{"title":"t","text":"x"}])", "for templates that take documents"},
    {"add_special_tokens", kCompletion | kEmbedding, Kind::boolean, 0, 0, applied, "", "true", "false: no BOS is put before text"},

    // Who goes first
    {"priority", kAll, Kind::integer, -1000, 1000, applied, "", "1", "higher goes first"},
    {"ttft_slo_ms", kAll, Kind::number, 0, kMostMs, applied, "", "500", "wished time to the first token; 0: no wish"},
    {"tpot_slo_ms", kAll, Kind::number, 0, kMostMs, applied, "", "50", "wished time from token to token; 0: no wish"},
    {"timeout_ms", kAll | kEmbedding, Kind::number, 0, kMostMs, applied, "", "60000", "then the request fails with 408, or an error event; 0: never"},
    {"cache_salt", kAll | kEmbedding, Kind::string, 0, 256, applied, "", R"("s")", "prefixes are shared only among requests of one salt"},

    // Structured output and tools: not built yet
    {"tools", kChat | kTokenize | kApplyTemplate, Kind::list, 0, 128, refused, "[]", R"([{"type":"function","function":{"name":"f"}}])", "tool calls are not built yet"},
    {"tool_choice", kChat, Kind::any, 0, 0, refused, R"("none" "auto")", R"("required")", "without tools there is nothing to choose"},
    {"parallel_tool_calls", kChat, Kind::boolean, 0, 0, ignored, "", "true", "says how tools are called, and no tools are"},
    {"functions", kChat, Kind::list, 0, 128, refused, "[]", R"([{"name":"f"}])", "OpenAI's old word for tools"},
    {"function_call", kChat, Kind::any, 0, 0, refused, R"("none" "auto")", R"({"name":"f"})", "OpenAI's old word for tool_choice"},
    {"response_format", kChat, Kind::object, 0, 16, refused, R"({"type":"text"})", R"({"type":"json_object"})", "structured output is not built yet; {\"type\": \"text\"} is the neutral value"},
    {"guided_json", kBoth, Kind::any, 0, 0, refused, "", R"({"type":"object"})", "structured output is not built yet"},
    {"guided_regex", kBoth, Kind::any, 0, 0, refused, "", R"("a+")", "structured output is not built yet"},
    {"guided_choice", kBoth, Kind::any, 0, 0, refused, "[]", R"(["a","b"])", "structured output is not built yet"},
    {"guided_grammar", kBoth, Kind::any, 0, 0, refused, "", R"("root ::= \"a\"")", "structured output is not built yet"},
    {"structured_outputs", kBoth, Kind::any, 0, 0, refused, "{}", R"({"json":{}})", "structured output is not built yet"},
    {"grammar", kBoth, Kind::any, 0, 0, refused, R"("")", R"("root ::= \"a\"")", "structured output is not built yet"},
    {"json_schema", kBoth, Kind::any, 0, 0, refused, "{}", R"({"type":"object"})", "structured output is not built yet"},

    // Other senses, other services
    {"audio", kChat, Kind::object, 0, 16, refused, "", R"({"voice":"alloy","format":"wav"})", "text is all that comes out"},
    {"modalities", kChat, Kind::list, 0, 8, refused, R"(["text"])", R"(["text","audio"])", "text is all that comes out"},
    {"web_search_options", kChat, Kind::object, 0, 16, refused, "", "{}", "the server asks nobody"},
    {"prediction", kChat, Kind::object, 0, 16, ignored, "", R"({"type":"content","content":"x"})", "a hint for speed; the answer is the same without"},
    {"reasoning_effort", kChat, Kind::choice, 0, 0, ignored, "none minimal low medium high xhigh", R"("low")", "templates that know efforts take them by chat_template_kwargs"},
    {"verbosity", kChat, Kind::choice, 0, 0, ignored, "low medium high", R"("low")", "the model has no such switch"},
    {"store", kChat, Kind::boolean, 0, 0, refused, "false", "true", "chat completions are not kept; /v1/responses keeps its answers"},
    {"metadata", kChat, Kind::object, 0, 16, ignored, "", R"({"a":"b"})", "belongs to stored completions"},
    {"service_tier", kBoth, Kind::string, 0, 64, ignored, "", R"("auto")", "there is one tier; see priority"},
    {"user", kBoth | kEmbedding | kResponse, Kind::string, 0, 4096, ignored, "", R"("u")", "an end user's name is for abuse reports; keys name tenants here"},
    {"safety_identifier", kBoth | kResponse, Kind::string, 0, 4096, ignored, "", R"("u")", "as user"},
    {"prompt_cache_key", kBoth | kResponse, Kind::string, 0, 4096, ignored, "", R"("k")", "every prefix is found by its tokens; cache_salt keeps tenants apart"},
    {"prompt_cache_retention", kBoth | kResponse, Kind::string, 0, 64, ignored, "", R"("24h")", "prefixes stay as long as there is room"},

    // Embeddings
    {"encoding_format", kEmbedding, Kind::choice, 0, 0, applied, "float base64", R"("float")", "numbers, or little-endian float32 in base64"},
    {"dimensions", kEmbedding, Kind::integer, 1, kMostInt, applied, "", "896", "must be the model's: vectors are not cut"},
    {"pooling", kEmbedding, Kind::choice, 0, 0, applied, "last mean", R"("last")", "which tokens' hidden states make the vector"},
    {"normalize", kEmbedding, Kind::boolean, 0, 0, applied, "", "true", "vectors of length 1"},
};

}  // namespace

std::span<const Field> openai_fields() { return kFields; }

}  // namespace millrace::server
