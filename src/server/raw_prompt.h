#pragma once

// Prompts without a conversation: text or token ids, one or many, as /v1/completions and /v1/embeddings take them.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/field_table.h"
#include "server/request_context.h"

namespace millrace::server {

struct RawPrompt {
  std::optional<std::string> text;  // none: ids were given
  std::vector<TokenId> ids;         // not empty
};

/// The field `name`, which must be there: a string, a list of strings, of ids, or of lists of ids; at most kMostPrompts. Text gets what
/// the tokenizer puts around it by itself, unless the field add_special_tokens says no.
Result<std::vector<RawPrompt>> read_raw_prompts(const Fields& fields, const std::string& name, const RequestContext& context);
inline constexpr std::size_t kMostPrompts = 1024;

/// What stands before a gap and what behind it, in the order in which models were trained on it: prefix, suffix, middle. Errors: the vocabulary has no
/// such tokens.
Result<std::vector<TokenId>> encode_around_gap(const std::string& before, const std::string& behind, const RequestContext& context);

}  // namespace millrace::server
