#pragma once

// From what a caller says to the tokens that a model reads first.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace millrace::text {

/// bos_token and eos_token as templates spell them; absent ones are left out.
Json special_token_variables(const Tokenizer& tokenizer);

/// A raw prompt: control tokens may be spelled in it; what the tokenizer adds is added, a BOS not a second time.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, std::string_view text);

/// What the clock here shows `since_epoch_s` seconds after the epoch, as templates' strftime_now reads it.
std::int64_t local_time(std::int64_t since_epoch_s);

/// The template over `variables` (messages, tools, add_generation_prompt, ...), to which bos_token, eos_token are added, and tools and
/// documents as null where absent. Errors: those of ChatTemplate::render.
Result<MarkedText> render_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template, Json variables, std::int64_t now);

/// Messages ([{role, content}, ...]) through the template, with the assistant's turn opened.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template, const Json& messages);

}  // namespace millrace::text
