#pragma once

// /v1/models: what is served, so that clients of both dialects can read it.

#include <optional>
#include <string_view>

#include "server/served_model.h"
#include "text/chat_template.h"

namespace millrace::server {

/// One entry per name.
text::Json models_body(const ServedModel& model);

/// The entry of that name; nullopt: not served.
std::optional<text::Json> model_body(const ServedModel& model, std::string_view name);

}  // namespace millrace::server
