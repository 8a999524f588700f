// The endpoints that generate: a body is read, planned, and handed to the engine. They run on the pool.

#include "server/endpoints.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "server/application.h"
#include "server/generation.h"
#include "server/json_body.h"
#include "server/planners.h"
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

/// timeout_ms counts from the request's arrival: `spent_us` of it are over. Errors: deadline.
Result<void> start_clocks(GenerationPlan& plan, Microseconds spent_us) {
  for (engine::Request& request : plan.prompts) {
    if (request.timeout_us == 0) continue;
    if (spent_us >= request.timeout_us) return error(Code::deadline, "the {} ms of timeout_ms were over before the request was read", static_cast<double>(request.timeout_us) / 1000);
    request.timeout_us -= spent_us;
  }
  return {};
}

void generate(Call call, Planner planner) {
  const auto body = read_body(call);
  if (!body) return refuse(call, body.error());
  RequestContext context = context_of(call);
  auto plan = planner(*body, context, *call.application);
  if (!plan) return refuse(call, plan.error());
  std::int64_t prompt_tokens = 0;
  for (const engine::Request& prompt : plan->prompts) prompt_tokens += std::ssize(prompt.prompt);
  if (const auto limit = call.application->rate_limits().prompt(call.record->tenant(), prompt_tokens, now_us())) return refuse(call, *limit, "rate_limit");
  if (const auto in_time = start_clocks(*plan, now_us() - call.exchange->request().arrived_us); !in_time) return refuse(call, in_time.error());
  const std::size_t answers = plan->prompts.size() * static_cast<std::size_t>(plan->answers), most = call.application->config().max_answers;
  if (most > 0 && answers > most)
    return refuse(call, field_error(plan->answers > 1 ? "n" : "prompt", "{} answers are more than the {} that may run and wait", answers, most));
  note_unknown_fields(call, context);
  start_generation(*call.model->engine, *std::move(plan), call.exchange, call.record);
}

}  // namespace

void chat_completions(Call call) { generate(std::move(call), alone<plan_chat_completion>); }
void completions(Call call) { generate(std::move(call), alone<plan_completion>); }
void embeddings(Call call) { generate(std::move(call), alone<plan_embedding>); }
void responses(Call call) { generate(std::move(call), with_store); }
void messages(Call call) { generate(std::move(call), alone<plan_message>); }

void count_tokens(Call call) {
  const auto body = read_body(call);
  if (!body) return refuse(call, body.error());
  RequestContext context = context_of(call);
  const auto count = count_message_tokens(*body, context);
  if (!count) return refuse(call, count.error());
  note_unknown_fields(call, context);
  call.exchange->respond({.body = dump({{"input_tokens", *count}})});
}

}  // namespace millrace::server
