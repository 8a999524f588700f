// What /v1/messages asks, and what /v1/messages/count_tokens counts of it.

#include <nlohmann/json.hpp>
#include <utility>

#include "server/field_table.h"
#include "server/message_prompt.h"
#include "server/message_writer.h"
#include "server/planners.h"
#include "server/request_fields.h"

namespace millrace::server {
namespace {

using text::Json;

Result<std::vector<TokenId>> read_prompt(const Fields& fields, const RequestContext& context) {
  MILLRACE_TRY(prompt, read_message_prompt(fields));
  auto ids = encode(prompt, context);
  // This dialect has no such field: the last message says it.
  if (!ids && ids.error().where == "continue_final_message") return field_error("messages", "the chat template leaves out the last message, so that it cannot be continued");
  return ids;
}

}  // namespace

Result<GenerationPlan> plan_message(const Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kMessage, context));
  const Fields fields(body, kMessage);
  const auto max_tokens = fields.integer("max_tokens");
  if (!max_tokens) return field_error("max_tokens", "missing, expected {}", expectation(*find_field(kMessage, "max_tokens")));
  MILLRACE_TRY(request, read_request_fields(fields, context));
  request.stop = fields.strings("stop_sequences");
  MILLRACE_TRY(prompt, read_prompt(fields, context));
  request.prompt = std::move(prompt);
  MILLRACE_TRY_VOID(limit_answer(request, max_tokens, "max_tokens", context));

  GenerationPlan plan;
  plan.stream = fields.boolean("stream", false);
  plan.writer = make_message_writer({"msg_" + context.id, context.model->names.front(), static_cast<int>(request.prompt.size()), request.stop});
  plan.prompts.push_back(std::move(request));
  return plan;
}

Result<int> count_message_tokens(const Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kCountTokens, context));
  MILLRACE_TRY(prompt, read_prompt(Fields(body, kCountTokens), context));
  return static_cast<int>(prompt.size());
}

}  // namespace millrace::server
