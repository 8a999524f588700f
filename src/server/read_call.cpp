#include "server/read_call.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "server/application.h"
#include "server/field_table.h"
#include "server/random_seed.h"

namespace millrace::server {
namespace {

/// "messages[3].foo" is "messages.foo" among counters: they are not one for each length of a conversation.
std::string without_index(const std::string& name) {
  const auto open = name.find('['), close = name.find(']');
  return open < close && close != name.npos ? name.substr(0, open) + name.substr(close + 1) : name;
}

}  // namespace

Result<text::Json> read_body(const Call& call) {
  MILLRACE_TRY(body, parse_body(call.exchange->request().body));
  const auto model = body.find("model");
  if (model == body.end() || model->is_null()) return body;
  if (!model->is_string()) return field_error("model", "expected a string, got {}", dump(*model));
  const auto& name = model->get_ref<const std::string&>();
  const auto& names = call.model->names;
  if (std::ranges::find(names, name) != names.end()) return body;
  Error error = field_error("model", "{} is not served here, '{}' is", shown(*model), names.front());
  error.code = Code::not_found;
  return error;
}

RequestContext context_of(const Call& call) {
  RequestContext context;
  context.model = call.model.get();
  context.tenant = &call.record->tenant();
  context.id = random_id();  // not the request's: clients choose that, and an answer's id is a key of the store
  context.now_s = static_cast<std::int64_t>(std::time(nullptr));
  context.strict = call.application->config().strict;
  context.random_seed = random_seed();
  return context;
}

void note_unknown_fields(Call& call, const RequestContext& context) {
  if (context.unknown_fields.empty()) return;
  std::string names;
  for (const std::string& name : context.unknown_fields) {
    names += (names.empty() ? "" : ", ") + name;
    call.application->metrics().unknown_fields.add(without_index(name));
  }
  call.exchange->add_header({"x-millrace-unknown-fields", names});
}

void refuse(Call& call, const Error& error) {
  const ApiError shown = to_api_error(error);
  refuse(call, shown, refusal_reason(shown));
}

void refuse(Call& call, const ApiError& error, std::string_view reason) {
  call.record->refused(error.status, std::string(reason));
  ApiError told = error;
  told.request_id = call.record->id();
  call.exchange->respond(error_response(told, call.dialect));
}

}  // namespace millrace::server
