#pragma once

// From a conversation to the tokens of a prompt: messages are read strictly, and go through the model's template. What a
// client says stays text: it can never become a control token (text/marked_text.h).

#include <string>
#include <vector>

#include "base/result.h"
#include "server/field_table.h"
#include "server/request_context.h"
#include "text/chat_template.h"

namespace millrace::server {

struct ChatPrompt {
  text::Json messages = nullptr;            // as templates read them: what read_messages returns
  text::Json template_variables = nullptr;  // chat_template_kwargs: an object or null
  text::Json documents = nullptr;           // a list or null
  bool add_generation_prompt = true;
  bool continue_final_message = false;      // the last message, the assistant's, stays open; add_generation_prompt is false then
};

/// OpenAI's messages as templates read them: content as one string, tool arguments as objects, developer as system.
Result<text::Json> read_messages(const text::Json& messages, RequestContext& context);

/// A content at the path `where`: a string, or a list of what a dialect calls `parts` and `read_part` reads. Those are joined with line
/// breaks, as other servers do for models of text.
Result<std::string> read_content(const text::Json& content, const std::string& where, const char* parts,
                                 Result<std::string> (*read_part)(const text::Json& part, const std::string& where));

/// The fields messages, add_generation_prompt, continue_final_message, chat_template_kwargs and documents of a body.
Result<ChatPrompt> read_chat_prompt(const Fields& fields, RequestContext& context);

/// The field chat_template_kwargs, which every API of messages has.
Result<void> read_template_variables(const Fields& fields, ChatPrompt& prompt);

/// Errors: no template, and why; what the template raises; `where` is "messages".
Result<text::MarkedText> render(const ChatPrompt& prompt, const RequestContext& context);

Result<std::vector<TokenId>> encode(const ChatPrompt& prompt, const RequestContext& context);

}  // namespace millrace::server
