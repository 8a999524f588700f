#pragma once

// What every endpoint with a body does with its call first.

#include "server/api_error.h"
#include "server/call.h"
#include "server/json_body.h"
#include "server/request_context.h"

namespace millrace::server {

/// The body as JSON, asking for a model that is served. Errors: those of parse_body; invalid_argument, not_found ("model").
Result<text::Json> read_body(const Call& call);

RequestContext context_of(const Call& call);

/// Names them in a header of the answer and counts them.
void note_unknown_fields(Call& call, const RequestContext& context);

/// Answers with the error and tells the record why, in a word.
void refuse(Call& call, const Error& error);
void refuse(Call& call, const ApiError& error, std::string_view reason);

}  // namespace millrace::server
