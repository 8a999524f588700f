// /tokenize, /detokenize and /apply-template: llama.cpp's and vLLM's names for the same things.

#include "server/field_rows.h"

namespace millrace::server {
namespace {

using enum Treatment;

constexpr Field kFields[] = {
    {"content", kTokenize, Kind::string, 0, kAnyLength, applied, "", R"("a")", "the text (llama.cpp's name)"},
    {"prompt", kTokenize, Kind::string, 0, kAnyLength, applied, "", R"("a")", "the text (vLLM's name)"},
    {"messages", kTokenize, Kind::list, 1, 100'000, applied, "", R"([{"role":"user","content":"hi"}])", "a conversation, through the template"},
    {"add_special", kTokenize, Kind::boolean, 0, 0, applied, "", "false", "what the tokenizer puts around a text by itself (llama.cpp's name)"},
    {"add_special_tokens", kTokenize, Kind::boolean, 0, 0, applied, "", "true", "the same (vLLM's name); absent: false with content, true with prompt, as those servers do"},
    {"parse_special", kTokenize, Kind::boolean, 0, 0, applied, "", "true", "false: control tokens that are spelled in the text are text"},
    {"with_pieces", kTokenize, Kind::boolean, 0, 0, applied, "", "true", "each token with its text, or its bytes where that is no text (llama.cpp's name)"},
    {"return_token_strs", kTokenize, Kind::boolean, 0, 0, applied, "", "true", "token_strs, as the vocabulary spells them (vLLM's name)"},
    {"continue_final_message", kTokenize, Kind::boolean, 0, 0, applied, "", "false", "the last message stays open"},
    {"chat_template_kwargs", kTokenize, Kind::object, 0, 64, applied, "", R"({"enable_thinking":false})", "variables for the template"},
    {"tokens", kDetokenize, Kind::ids, 0, kAnyLength, applied, "", "[7]", "token ids"},
    {"skip_special_tokens", kDetokenize, Kind::boolean, 0, 0, applied, "", "false", "true: control tokens are left out"},
};

}  // namespace

std::span<const Field> text_fields() { return kFields; }

}  // namespace millrace::server
