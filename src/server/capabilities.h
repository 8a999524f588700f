#pragma once

// /v1/capabilities: what this server can do, before anybody tries: endpoints, what becomes of each field, limits, the model.
// Made from the tables that do the work, so it cannot say anything else.

#include <span>

#include "server/routes.h"
#include "server/served_model.h"
#include "server/server_config.h"
#include "text/chat_template.h"

namespace millrace::server {

text::Json capabilities_body(const ServedModel& model, const ServerConfig& config, std::span<const Route> routes);

}  // namespace millrace::server
