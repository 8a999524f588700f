#pragma once

// What endpoints answer that generate nothing: text to tokens and back, and messages to a prompt. Each takes a body and returns the
// answer's JSON; pure, for a pool. Errors carry the path of the field.

#include <string>

#include "base/result.h"
#include "server/request_context.h"
#include "text/chat_template.h"

namespace millrace::server {

Result<std::string> answer_tokenize(const text::Json& body, RequestContext& context);        // {"tokens", "count", "max_model_len", ...}
Result<std::string> answer_detokenize(const text::Json& body, RequestContext& context);      // {"content", "prompt"}: the same text
Result<std::string> answer_apply_template(const text::Json& body, RequestContext& context);  // {"prompt"}

}  // namespace millrace::server
