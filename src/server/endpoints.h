#pragma once

// Every endpoint's entry, as routes.cpp names them. Each answers its call's exchange, now or later. Those that generate are
// in endpoints.cpp, the others beside what they show.

#include "server/call.h"

namespace millrace::server {

void chat_completions(Call call);
void completions(Call call);
void responses(Call call);
void get_response(Call call);
void delete_response(Call call);
void response_input_items(Call call);
void messages(Call call);
void count_tokens(Call call);
void embeddings(Call call);
void list_models(Call call);
void get_model(Call call);
void capabilities(Call call);
void tokenize(Call call);
void detokenize(Call call);
void apply_template(Call call);
void health(Call call);
void readiness(Call call);
void metrics(Call call);
void explain_request(Call call);
void explain_prompt(Call call);
void debug_requests(Call call);
void openapi(Call call);

}  // namespace millrace::server
