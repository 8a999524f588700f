// /tokenize, /detokenize and /apply-template as the router calls them.

#include "server/endpoints.h"
#include "server/read_call.h"
#include "server/text_endpoints.h"

namespace millrace::server {
namespace {

using Answer = Result<std::string> (*)(const text::Json&, RequestContext&);

void respond(Call call, Answer answer) {
  const auto body = read_body(call);
  if (!body) return refuse(call, body.error());
  RequestContext context = context_of(call);
  auto text = answer(*body, context);
  if (!text) return refuse(call, text.error());
  note_unknown_fields(call, context);
  HttpResponse response;
  response.body = *std::move(text);
  call.exchange->respond(std::move(response));
}

}  // namespace

void tokenize(Call call) { respond(std::move(call), answer_tokenize); }
void detokenize(Call call) { respond(std::move(call), answer_detokenize); }
void apply_template(Call call) { respond(std::move(call), answer_apply_template); }

}  // namespace millrace::server
