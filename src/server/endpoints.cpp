// The endpoints that generate: a body is read, planned, and handed to the engine. They run on the pool.

#include "server/endpoints.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/application.h"
#include "server/generation.h"
#include "server/json_body.h"
#include "server/planners.h"
#include "server/random_seed.h"
#include "server/read_call.h"

namespace millrace::server {
namespace {

using Planner = Result<GenerationPlan> (*)(const text::Json&, RequestContext&, Application&);

/// A planner that needs no more than the context.
template <Result<GenerationPlan> (*plan)(const text::Json&, RequestContext&)>
Result<GenerationPlan> alone(const text::Json& body, RequestContext& context, Application&) {
  return plan(body, context);
}

Result<GenerationPlan> with_store(const text::Json& body, RequestContext& context, Application& application) {
  return plan_response(body, context, application.responses());
}

void generate(Call call, Dialect dialect, Planner planner) {
  const auto body = read_body(call);
  if (!body) return refuse(call, body.error(), dialect);
  RequestContext context = context_of(call);
  auto plan = planner(*body, context, *call.application);
  if (!plan) return refuse(call, plan.error(), dialect);
  std::int64_t prompt_tokens = 0;
  for (const engine::Request& prompt : plan->prompts) prompt_tokens += std::ssize(prompt.prompt);
  if (const auto limit = call.application->rate_limits().prompt(call.record->tenant(), prompt_tokens, now_us())) return refuse(call, *limit, dialect, "rate_limit");
  note_unknown_fields(call, context);
  start_generation(*call.model->engine, *std::move(plan), call.exchange, call.record);
}

}  // namespace

void chat_completions(Call call) { generate(std::move(call), Dialect::openai, alone<plan_chat_completion>); }
void completions(Call call) { generate(std::move(call), Dialect::openai, alone<plan_completion>); }
void embeddings(Call call) { generate(std::move(call), Dialect::openai, alone<plan_embedding>); }
void responses(Call call) { generate(std::move(call), Dialect::openai, with_store); }
void messages(Call call) { generate(std::move(call), Dialect::anthropic, alone<plan_message>); }

void count_tokens(Call call) {
  const auto body = read_body(call);
  if (!body) return refuse(call, body.error(), Dialect::anthropic);
  RequestContext context = context_of(call);
  const auto count = count_message_tokens(*body, context);
  if (!count) return refuse(call, count.error(), Dialect::anthropic);
  note_unknown_fields(call, context);
  call.exchange->respond({.body = dump({{"input_tokens", *count}})});
}

}  // namespace millrace::server
