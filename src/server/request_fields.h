#pragma once

// The fields that all endpoints share that generate: how tokens are drawn, what ends an answer, who goes first. Knows no prompt.

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engine/engine.h"
#include "server/field_table.h"
#include "server/request_context.h"

namespace millrace::server {

/// A request without a prompt and a length. What the body does not say is the model's wish, else the engine's default.
Result<engine::Request> read_request_fields(const Fields& fields, const RequestContext& context);

/// Sets how long the answer to request.prompt may be: `asked` by the client's field `field`, or what is left of the context.
/// Errors: what does not fit, with prompt, asked and limit.
Result<void> limit_answer(engine::Request& request, std::optional<std::int64_t> asked, const char* field, const RequestContext& context);

/// vLLM's prompt_logprobs: how many of the likeliest tokens are told at each of the prompt's, or -1. Errors: what it does not go with.
Result<int> read_prompt_logprobs(const Fields& fields, int answers);

/// Errors: the first of `ids` that the vocabulary does not have; `where` is the list's path.
Result<std::vector<TokenId>> read_ids(const text::Json& ids, const std::string& where, const RequestContext& context);

}  // namespace millrace::server
