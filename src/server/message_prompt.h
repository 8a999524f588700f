#pragma once

// A conversation as Anthropic's clients write it: system apart, contents as blocks, and an answer that was begun as its last
// message. Pure.

#include "base/result.h"
#include "server/chat_prompt.h"
#include "server/field_table.h"

namespace millrace::server {

/// The fields system, messages and chat_template_kwargs. Neighbours of one role become one message, as in Anthropic's API; a last one of the assistant's
/// is continued. Errors: invalid_argument with the path: what is no text.
Result<ChatPrompt> read_message_prompt(const Fields& fields);

}  // namespace millrace::server
