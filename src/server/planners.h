#pragma once

// From a body to what the engine is asked, one function per endpoint that generates. Pure: the same body and context give the
// same plan; they render templates and tokenize, so they belong on a pool. Errors carry the path of the field (Error::where).

#include "base/result.h"
#include "server/generation.h"
#include "server/request_context.h"
#include "text/chat_template.h"

namespace millrace::server {

class ResponseStore;  // of /v1/responses

Result<GenerationPlan> plan_chat_completion(const text::Json& body, RequestContext& context);
Result<GenerationPlan> plan_completion(const text::Json& body, RequestContext& context);
/// /v1/embeddings: prompts without new tokens, and a writer that has seen their hidden states.
Result<GenerationPlan> plan_embedding(const text::Json& body, RequestContext& context);
Result<GenerationPlan> plan_response(const text::Json& body, RequestContext& context, ResponseStore& store);
Result<GenerationPlan> plan_message(const text::Json& body, RequestContext& context);

/// Prompt tokens of a /v1/messages/count_tokens body.
Result<int> count_message_tokens(const text::Json& body, RequestContext& context);

}  // namespace millrace::server
