#pragma once

// The input of /v1/responses: a text, or items as clients and earlier answers write them. Pure; knows no store.

#include <string>

#include "base/result.h"
#include "text/chat_template.h"

namespace millrace::server {

/// `input` as a list of items in their full form: {"type": "message", "id", "status", "role", "content": [parts]}. Items
/// without an id are named after `request_id`. Errors: invalid_argument with the path: what is no message of text.
Result<text::Json> read_input_items(const text::Json& input, const std::string& request_id);

/// Appends what `items` (of read_input_items, or the output of a response) say to a template's messages.
void append_item_messages(text::Json& messages, const text::Json& items);

}  // namespace millrace::server
