// /v1/completions: from a body to a plan.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/answer_style.h"
#include "server/completion_writer.h"
#include "server/field_table.h"
#include "server/planners.h"
#include "server/raw_prompt.h"
#include "server/request_fields.h"

namespace millrace::server {
namespace {

using text::Json;

/// How many answers each prompt has.
Result<int> read_answers(const Fields& fields, std::size_t prompts) {
  const auto n = fields.integer("n").value_or(1);
  const auto best_of = fields.integer("best_of").value_or(n);
  if (best_of != n) return field_error("best_of", "expected {} as n: answers are not ranked; got {}", n, best_of);
  if (static_cast<std::size_t>(n) * prompts > kMostPrompts) return field_error("n", "{} answers to each of {} prompts, at most {} in all are possible", n, prompts, kMostPrompts);
  return static_cast<int>(n);
}

Result<std::vector<RawPrompt>> read_prompts(const Fields& fields, const RequestContext& context) {
  MILLRACE_TRY(prompts, read_raw_prompts(fields, "prompt", context));
  const std::string suffix = fields.string("suffix").value_or("");
  if (suffix.empty()) return std::move(prompts);
  for (RawPrompt& prompt : prompts) {
    if (!prompt.text) return field_error("suffix", "only with a prompt of text");
    MILLRACE_TRY(ids, encode_around_gap(*prompt.text, suffix, context));
    prompt.ids = std::move(ids);
  }
  return std::move(prompts);
}

/// What is told of prompts is kept from the start on, and each answer of the request has its own matcher of its stop strings.
Result<void> check_memory(const std::vector<RawPrompt>& prompts, const std::vector<std::string>& stop, int answers, bool tells_prompts, const RequestContext& context) {
  constexpr std::size_t kMostTold = 65'536, kMostStopBytes = 4 << 20;
  std::size_t tokens = 0, stop_bytes = 0;
  for (const RawPrompt& prompt : prompts) tokens += prompt.ids.size();
  for (const std::string& one : stop) stop_bytes += one.size();
  const std::size_t most = std::max(kMostTold, static_cast<std::size_t>(context.model->context_tokens));
  if (tells_prompts && tokens > most) return field_error("prompt", "{} tokens, log-probabilities are told of at most {}", tokens, most);
  stop_bytes *= prompts.size() * static_cast<std::size_t>(answers);
  if (stop_bytes > kMostStopBytes) return field_error("stop", "{} bytes over all answers, at most {} are possible", stop_bytes, kMostStopBytes);
  return {};
}

}  // namespace

Result<GenerationPlan> plan_completion(const Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kCompletion, context));
  const Fields fields(body, kCompletion);
  MILLRACE_TRY(style, read_answer_style(fields, "cmpl-", context));
  MILLRACE_TRY(common, read_request_fields(fields, context));
  MILLRACE_TRY(prompts, read_prompts(fields, context));
  GenerationPlan plan;
  MILLRACE_TRY(answers, read_answers(fields, prompts.size()));
  plan.answers = answers;
  plan.stream = fields.boolean("stream", false);
  common.tell_progress = plan.stream && fields.boolean("return_progress", false);
  style.top_logprobs = static_cast<int>(fields.integer("logprobs").value_or(-1));
  style.answers = plan.answers * static_cast<int>(prompts.size());
  style.stop = common.stop;
  common.sampling.top_logprobs = style.top_logprobs;

  const bool echo = fields.boolean("echo", false), keep_special = common.keep_special;
  MILLRACE_TRY(prompt_top, read_prompt_logprobs(fields, plan.answers));
  if (echo && style.top_logprobs >= 0 && plan.answers > 1) return field_error("echo", "not together with logprobs and n {}: what is told of a prompt is told for one answer", plan.answers);
  const int told_top = std::max(prompt_top, echo ? style.top_logprobs : -1);
  MILLRACE_TRY_VOID(check_memory(prompts, common.stop, plan.answers, told_top >= 0, context));
  std::vector<EchoedPrompt> told;
  for (RawPrompt& prompt : prompts) {
    engine::Request request = common;
    request.prompt = prompt.ids;
    MILLRACE_TRY_VOID(limit_answer(request, fields.integer("max_tokens"), "max_tokens", context));
    if (plan.answers > 1 && request.max_new_tokens == 0) return field_error("n", "{} answers of no tokens", plan.answers);
    EchoedPrompt& one = told.emplace_back();
    if (told_top >= 0) one.logprobs = engine::PromptLogprobs::collect(request, told_top);
    one.tells_logprobs = prompt_top >= 0;
    if (echo) one.echo = prompt.text ? *std::move(prompt.text) : context.model->tokenizer->decode(prompt.ids, keep_special);
    one.ids = std::move(prompt.ids);
    plan.prompts.push_back(std::move(request));
  }
  plan.writer = std::make_unique<CompletionWriter>(std::move(style), std::move(told), echo, keep_special);
  return plan;
}

}  // namespace millrace::server
