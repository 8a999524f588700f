#pragma once

// /openapi.json: this API for machines, in OpenAPI 3.1. Made from the routes and the field table; knows nothing else of them.

#include <span>
#include <string>

#include "server/routes.h"
#include "text/chat_template.h"

namespace millrace::server {

text::Json openapi_document(std::span<const Route> routes, const std::string& version);

}  // namespace millrace::server
