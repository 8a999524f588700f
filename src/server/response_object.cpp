#include "server/response_object.h"

#include <utility>

namespace millrace::server {
namespace {

using text::Json;

Json usage_object(const Totals& totals) {
  return {{"input_tokens", totals.prompt_tokens},
          // cache_write_tokens is what OpenAI bills for keeping a prefix: here that is nothing.
          {"input_tokens_details", {{"cached_tokens", totals.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", totals.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", totals.reasoning_tokens}}},
          {"total_tokens", totals.prompt_tokens + totals.completion_tokens}};
}

/// Of the words that a response's error may have.
const char* failure_code(const ApiError& error) {
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status >= 400 && error.status < 500 ? "invalid_prompt" : "server_error";
}

}  // namespace

Json output_text(std::string text, Json logprobs) {
  return {{"type", "output_text"}, {"text", std::move(text)}, {"annotations", Json::array()}, {"logprobs", std::move(logprobs)}};
}

Json output_message(const std::string& id, const char* status, Json content) {
  return {{"type", "message"}, {"id", id}, {"status", status}, {"role", "assistant"}, {"content", std::move(content)}};
}

const char* response_status(engine::Finish finish) { return finish == engine::Finish::stop ? "completed" : "incomplete"; }

Json ended_response(Json begun, Json message, engine::Finish finish, const Totals& totals) {
  begun["status"] = response_status(finish);
  if (finish == engine::Finish::length) begun["incomplete_details"] = {{"reason", "max_output_tokens"}};
  begun["output"] = Json::array({std::move(message)});
  begun["usage"] = usage_object(totals);
  return begun;
}

Json failed_response(Json begun, const ApiError& error) {
  begun["status"] = "failed";
  begun["error"] = {{"code", failure_code(error)}, {"message", error.message}};
  return begun;
}

}  // namespace millrace::server
