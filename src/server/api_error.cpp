#include "server/api_error.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/json_text.h"
#include "server/sse.h"

namespace millrace::server {
namespace {

/// What client libraries of either dialect make an exception class of, or show.
struct Words {
  int status;
  const char *openai, *anthropic;
};
constexpr Words kWords[] = {
    {400, "invalid_request_error", "invalid_request_error"},
    {401, "authentication_error", "authentication_error"},
    {403, "permission_error", "permission_error"},
    {404, "invalid_request_error", "not_found_error"},
    {405, "invalid_request_error", "invalid_request_error"},
    {408, "timeout_error", "timeout_error"},
    {413, "invalid_request_error", "request_too_large"},
    {415, "invalid_request_error", "invalid_request_error"},
    {422, "invalid_request_error", "invalid_request_error"},
    {429, "rate_limit_error", "rate_limit_error"},
    {500, "server_error", "api_error"},
    {503, "server_error", "overloaded_error"},
};

const Words& words_of(int status) {
  for (const Words& words : kWords)
    if (words.status == status) return words;
  return status < 500 ? kWords[0] : words_of(500);
}

int status_of(const Error& error) {
  switch (error.code) {
    case Code::invalid_argument:
    case Code::unsupported: return 400;
    case Code::not_found: return 404;
    case Code::exhausted: return error.retry_after_us > 0 ? 429 : 503;
    case Code::cancelled: return 503;
    case Code::deadline: return 408;
    case Code::corrupt_data: return 500;
  }
  return 500;
}

/// How the planners, the engine and its scheduler alike begin the sentence that a prompt does not fit, which no repetition will change.
bool is_too_long(const Error& error) {
  const std::string& message = error.message;
  const std::size_t starts = message.starts_with(error.where + ": ") ? error.where.size() + 2 : 0;  // what clients wrote stands further on
  return message.compare(starts, 10, "prompt of ") == 0 && (error.code == Code::invalid_argument || error.code == Code::exhausted) && error.retry_after_us == 0 &&
         (message.find(" exceeds the ", starts) != std::string::npos || message.find(" leaves no room ", starts) != std::string::npos);
}

std::string code_of(const Error& error, int status) {
  if (status == 429) return "rate_limit_exceeded";
  if (status == 404) return error.where == "model" ? "model_not_found" : "not_found";
  if (status == 400 && error.code == Code::unsupported) return "unsupported";
  return "";
}

std::string body_of(const ApiError& error, Dialect dialect) {
  const Words& words = words_of(error.status);
  if (dialect == Dialect::anthropic) {
    const std::string id = error.request_id.empty() ? "" : ",\"request_id\":" + json_string(error.request_id);
    return fmt::format(R"({{"type":"error","error":{{"type":"{}","message":{}}}{}}})", words.anthropic, json_string(error.message), id);
  }
  const auto or_null = [](const std::string& text) { return text.empty() ? std::string("null") : json_string(text); };
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})", json_string(error.message), words.openai,
                     or_null(error.param), or_null(error.code));
}

}  // namespace

ApiError to_api_error(const Error& error) {
  ApiError out;
  const bool too_long = is_too_long(error);
  // OpenAI's answer: the path was found, what its body names was not.
  const bool lost = error.code == Code::not_found && error.where == "previous_response_id";
  out.status = too_long || lost ? 400 : status_of(error);
  out.message = error.message;
  out.param = error.where;
  out.code = too_long ? "context_length_exceeded" : lost ? "previous_response_not_found" : code_of(error, out.status);
  out.retry_after_us = error.retry_after_us;
  return out;
}

std::string refusal_reason(const ApiError& error) {
  if (error.status == 429) return "queue_full";
  if (error.status == 404) return "not_found";
  if (error.status >= 500) return "unavailable";
  return error.code == "context_length_exceeded" ? "too_long" : "invalid";
}

HttpResponse error_response(const ApiError& error, Dialect dialect) {
  HttpResponse response;
  response.status = error.status;
  response.body = body_of(error, dialect);
  constexpr Microseconds kSecond = 1'000'000;
  if (error.retry_after_us > 0)
    response.headers.push_back({"retry-after", std::to_string(std::max<Microseconds>((error.retry_after_us + kSecond - 1) / kSecond, 1))});
  return response;
}

std::string error_event(const ApiError& error, Dialect dialect) {
  const std::string body = body_of(error, dialect);
  return dialect == Dialect::anthropic ? sse_event("error", body) : sse_data(body);
}

}  // namespace millrace::server
