#pragma once

// Which body of the field table an endpoint takes: for those that describe the API. What checks a body knows its own.

#include <optional>
#include <string_view>

#include "server/field_table.h"

namespace millrace::server {

/// nullopt: it takes none, or none that has a table.
std::optional<BodyOf> body_of_endpoint(std::string_view method, std::string_view path);

}  // namespace millrace::server
