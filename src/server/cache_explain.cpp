#include "server/cache_explain.h"

#include <nlohmann/json.hpp>

#include "server/planners.h"
#include "server/request_list.h"

namespace millrace::server {

Result<text::Json> explain_request(const std::vector<std::pair<std::string, std::string>>& query, const RequestRecords& records, const Tenant& who) {
  if (query.size() != 1 || query[0].first != "request_id" || query[0].second.empty())
    return field_error("request_id", "expected ?request_id=, the X-Request-Id of a request");
  const auto facts = records.find(query[0].second, who);
  if (!facts) {
    Error error = field_error("request_id", "'{}' is none of the live requests and the last {}", query[0].second, RequestRecords::kKeptRequests);
    error.code = Code::not_found;
    return error;
  }
  return explained_body(*facts);
}

Result<text::Json> explain_prompt(const text::Json& body, RequestContext& context) {
  MILLRACE_TRY(plan, body.contains("messages") ? plan_chat_completion(body, context) : plan_completion(body, context));
  text::Json prompts = text::Json::array();
  for (const engine::Request& prompt : plan.prompts) prompts.push_back(report_body(context.model->engine->explain(prompt.prompt, prompt.cache_salt)));
  return text::Json{{"object", "cache.explanation"}, {"prompts", std::move(prompts)}};
}

}  // namespace millrace::server
