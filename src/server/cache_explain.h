#pragma once

// /cache/explain: what the prefix cache did for a request, and what it would do for a prompt now.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/request_context.h"
#include "server/request_records.h"
#include "text/chat_template.h"

namespace millrace::server {

/// GET, with ?request_id=. Errors: invalid_argument (none, or more than one), not_found (not one of the live requests and the last 1,024).
Result<text::Json> explain_request(const std::vector<std::pair<std::string, std::string>>& query, const RequestRecords& records, const Tenant& who);

/// POST, with the body of /v1/chat/completions (messages) or /v1/completions (prompt): its prompts are looked up as if they
/// came now, and nothing runs. Waits for the engine's current step. Errors: those of the planners.
Result<text::Json> explain_prompt(const text::Json& body, RequestContext& context);

}  // namespace millrace::server
