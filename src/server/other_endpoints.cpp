// The endpoints that generate nothing: each makes its answer at once, here or in the function that it calls.

#include <nlohmann/json.hpp>
#include <utility>

#include "server/application.h"
#include "server/cache_explain.h"
#include "server/capabilities.h"
#include "server/endpoints.h"
#include "server/metrics_page.h"
#include "server/model_list.h"
#include "server/openapi.h"
#include "server/planners.h"
#include "server/read_call.h"
#include "server/request_list.h"
#include "server/routes.h"
#include "server/stored_responses.h"

namespace millrace::server {
namespace {

void answer(Call& call, Result<std::string> body) {
  if (!body) return refuse(call, body.error());
  call.exchange->respond({.body = *std::move(body)});
}

Pulse pulse_of(const ServedModel* model, Microseconds max_step_us) {
  if (!model) return {.max_step_us = max_step_us};
  const engine::EngineMetrics& metrics = model->engine->metrics();
  return {.silent_us = model->engine->pulse(), .max_step_us = max_step_us, .running = metrics.running.value(), .waiting = metrics.waiting.value()};
}

void answer_json(Call& call, const Result<text::Json>& body) {
  if (!body) return refuse(call, body.error());
  call.exchange->respond({.body = dump(*body)});
}

}  // namespace

void get_response(Call call) {
  answer(call, stored_response(call.parts[0], call.exchange->request().query, context_of(call), call.application->responses()));
}

void delete_response(Call call) { answer(call, remove_response(call.parts[0], context_of(call), call.application->responses())); }

void response_input_items(Call call) {
  answer(call, list_input_items(call.parts[0], call.exchange->request().query, context_of(call), call.application->responses()));
}

void health(Call call) { call.exchange->respond(health_response(call.application->state())); }

void readiness(Call call) {
  call.exchange->respond(ready_response(call.application->state(), pulse_of(call.model.get(), call.application->config().max_step_us)));
}

void metrics(Call call) {
  Application& application = *call.application;
  call.exchange->respond(metrics_response({.prefix = application.config().metrics_prefix,
                                           .server = &application.metrics(),
                                           .http = &application.http().metrics(),
                                           .engine = call.model ? &call.model->engine->metrics() : nullptr,
                                           .build = application.config().build}));
}

void list_models(Call call) { call.exchange->respond({.body = dump(models_body(*call.model))}); }

void get_model(Call call) {
  const auto found = model_body(*call.model, call.parts[0]);
  if (found) return call.exchange->respond({.body = dump(*found)});
  Error none = field_error("model", "'{}' is not served here, '{}' is", call.parts[0], call.model->names.front());
  none.code = Code::not_found;
  refuse(call, none);
}

void capabilities(Call call) { call.exchange->respond({.body = dump(capabilities_body(*call.model, call.application->config(), routes()))}); }

void openapi(Call call) { call.exchange->respond({.body = dump(openapi_document(routes(), call.application->config().version))}); }

void debug_requests(Call call) { call.exchange->respond({.body = dump(requests_body(call.application->records().live(call.record->tenant()), now_us()))}); }

void explain_request(Call call) { answer_json(call, explain_request(call.exchange->request().query, call.application->records(), call.record->tenant())); }

void explain_prompt(Call call) {
  const auto body = read_body(call);
  if (!body) return refuse(call, body.error());
  RequestContext context = context_of(call);
  const auto made = explain_prompt(*body, context);
  note_unknown_fields(call, context);
  answer_json(call, made);
}

}  // namespace millrace::server
