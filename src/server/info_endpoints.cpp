// The endpoints that show the server and its model: each answers at once with what the function that it calls makes.

#include <nlohmann/json.hpp>

#include "server/application.h"
#include "server/cache_explain.h"
#include "server/capabilities.h"
#include "server/endpoints.h"
#include "server/model_list.h"
#include "server/openapi.h"
#include "server/read_call.h"
#include "server/request_list.h"
#include "server/routes.h"

namespace millrace::server {
namespace {

constexpr const char* kApiVersion = "1";  // of what the document describes, not of the program

void answer(Call& call, const text::Json& body) { call.exchange->respond({.body = dump(body)}); }

void answer(Call& call, const Result<text::Json>& body) {
  if (!body) return refuse(call, body.error(), Dialect::openai);
  answer(call, *body);
}

}  // namespace

void list_models(Call call) { answer(call, models_body(*call.model)); }

void get_model(Call call) {
  if (const auto body = model_body(*call.model, call.parts[0])) return answer(call, *body);
  Error error = field_error("model", "'{}' is not served here, '{}' is", call.parts[0], call.model->names.front());
  error.code = Code::not_found;
  refuse(call, error, Dialect::openai);
}

void capabilities(Call call) { answer(call, capabilities_body(*call.model, call.application->config(), routes())); }

void openapi(Call call) { answer(call, openapi_document(routes(), kApiVersion)); }

void debug_requests(Call call) { answer(call, requests_body(call.application->records().live(call.record->tenant()), now_us())); }

void explain_request(Call call) { answer(call, explain_request(call.exchange->request().query, call.application->records(), call.record->tenant())); }

void explain_prompt(Call call) {
  const auto body = read_body(call);
  if (!body) return refuse(call, body.error(), Dialect::openai);
  RequestContext context = context_of(call);
  const auto made = explain_prompt(*body, context);
  note_unknown_fields(call, context);
  answer(call, made);
}

}  // namespace millrace::server
