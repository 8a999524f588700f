// /v1/chat/completions: from a body to a plan.

#include <nlohmann/json.hpp>

#include "server/answer_style.h"
#include "server/chat_prompt.h"
#include "server/chat_writer.h"
#include "server/field_table.h"
#include "server/planners.h"
#include "server/request_fields.h"

namespace millrace::server {
namespace {

Result<int> read_top_logprobs(const Fields& fields) {
  const auto top = fields.integer("top_logprobs");
  if (fields.boolean("logprobs", false)) return static_cast<int>(top.value_or(0));
  if (top.value_or(0) > 0) return field_error("top_logprobs", "only with \"logprobs\": true");
  return -1;
}

}  // namespace

Result<GenerationPlan> plan_chat_completion(const text::Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kChat, context));
  const Fields fields(body, kChat);
  MILLRACE_TRY(style, read_answer_style(fields, "chatcmpl-", context));
  MILLRACE_TRY(top_logprobs, read_top_logprobs(fields));
  MILLRACE_TRY(request, read_request_fields(fields, context));
  MILLRACE_TRY(prompt, read_chat_prompt(fields, context));
  MILLRACE_TRY(ids, encode(prompt, context));
  request.prompt = std::move(ids);
  const bool newer = fields.find("max_completion_tokens") != nullptr;
  const char* limit = newer ? "max_completion_tokens" : "max_tokens";
  MILLRACE_TRY_VOID(limit_answer(request, fields.integer(limit), limit, context));

  GenerationPlan plan;
  plan.answers = static_cast<int>(fields.integer("n").value_or(1));
  if (plan.answers > 1 && request.max_new_tokens == 0) return field_error("n", "{} answers of no tokens", plan.answers);
  plan.stream = fields.boolean("stream", false);
  request.tell_progress = plan.stream && fields.boolean("return_progress", false);
  request.sampling.top_logprobs = top_logprobs;
  style.top_logprobs = top_logprobs;
  style.answers = plan.answers;
  style.stop = request.stop;
  MILLRACE_TRY(prompt_top, read_prompt_logprobs(fields, plan.answers));
  ToldPrompt told;
  if (prompt_top >= 0) told = {request.prompt, engine::PromptLogprobs::collect(request, prompt_top)};
  plan.prompts.push_back(std::move(request));
  plan.writer = std::make_unique<ChatWriter>(std::move(style), std::move(told));
  return plan;
}

}  // namespace millrace::server
