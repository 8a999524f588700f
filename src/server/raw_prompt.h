#pragma once

// Prompts without a conversation: text or token ids, one or many, as /v1/completions and /v1/embeddings take them.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/request_context.h"
#include "text/chat_template.h"

namespace millrace::server {

struct RawPrompt {
  std::optional<std::string> text;  // none: ids were given
  std::vector<TokenId> ids;         // not empty
};

/// A string, a list of strings, of ids, or of lists of ids; `where` is its path. `add_special`: text gets what the tokenizer puts
/// around it by itself. At most kMostPrompts.
Result<std::vector<RawPrompt>> read_raw_prompts(const text::Json& value, const std::string& where, bool add_special, const RequestContext& context);
inline constexpr std::size_t kMostPrompts = 1024;

/// What stands before a gap and what behind it, in the order in which models were trained on it: prefix, suffix, middle. Errors: the vocabulary has no
/// such tokens.
Result<std::vector<TokenId>> encode_around_gap(const std::string& before, const std::string& behind, const RequestContext& context);

}  // namespace millrace::server
