#pragma once

// What went wrong, as the caller's own client library wants to read it. The one place where codes become HTTP statuses.

#include <string>

#include "base/result.h"
#include "server/http.h"

namespace millrace::server {

/// Whose words an endpoint speaks.
enum class Dialect { openai, anthropic };

struct ApiError {
  int status = 500;
  std::string message;  // one sentence
  std::string param;    // path of the field, or empty
  std::string code;     // OpenAI's "code": "model_not_found", "context_length_exceeded", "rate_limit_exceeded", ...; or empty
  Microseconds retry_after_us = 0;
  std::string request_id;  // told in Anthropic's body, or empty
};

/// invalid_argument 400, not_found 404, exhausted 429 with a time to retry and else 503, cancelled 503, deadline 408, unsupported 400,
/// corrupt_data 500.
ApiError to_api_error(const Error& error);

/// Why a request was refused, in a word for refused_requests_total{reason}: "invalid", "too_long", "not_found", "queue_full", "unavailable".
std::string refusal_reason(const ApiError& error);

/// {"error": {"message", "type", "param", "code"}} or {"type": "error", "error": {"type", "message"}, "request_id"}; with Retry-After in whole seconds, at least 1.
HttpResponse error_response(const ApiError& error, Dialect dialect);

/// The event that ends a stream: `data: {"error": ...}` or `event: error`.
std::string error_event(const ApiError& error, Dialect dialect);

}  // namespace millrace::server
