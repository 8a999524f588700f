#pragma once

// GET and DELETE /v1/responses/{id}, GET /v1/responses/{id}/input_items: what the store has, as OpenAI's clients read it.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/request_context.h"
#include "server/response_store.h"

namespace millrace::server {

using Query = std::vector<std::pair<std::string, std::string>>;  // HttpRequest::query

/// Each returns the body of a 200. Errors: not_found, naming the id (never stored, forgotten, deleted, another tenant's);
/// invalid_argument, naming what is wrong in `query`.
Result<std::string> stored_response(const std::string& id, const Query& query, const RequestContext& context, ResponseStore& store);
Result<std::string> remove_response(const std::string& id, const RequestContext& context, ResponseStore& store);

/// Pages through all items that the answer was made from: `limit`, `order`, `after`.
Result<std::string> list_input_items(const std::string& id, const Query& query, const RequestContext& context, ResponseStore& store);

}  // namespace millrace::server
