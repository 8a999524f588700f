#pragma once

// The objects of OpenAI's Responses API: the response, its message, the message's text. Pure; the writer, the store and the
// stream take them from here, so that all say the same.

#include <nlohmann/json.hpp>

#include <string>

#include "server/answer_writer.h"
#include "text/chat_template.h"

namespace millrace::server {

/// {"type": "output_text", ...}; `logprobs` is a list, empty where none were asked for.
text::Json output_text(std::string text, text::Json logprobs);

/// The one item of an answer. `content`: a list of output_text, empty while there is none.
text::Json output_message(const std::string& id, const char* status, text::Json content);

/// How an answer that ended that way is called: "completed" or "incomplete".
const char* response_status(engine::Finish finish);

/// `begun` (a response object with status in_progress) as it is at its end.
text::Json ended_response(text::Json begun, text::Json message, engine::Finish finish, const Totals& totals);

/// The same for one that broke off.
text::Json failed_response(text::Json begun, const ApiError& error);

}  // namespace millrace::server
