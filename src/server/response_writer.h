#pragma once

// Says an answer in the events of OpenAI's Responses API, or as one response object. One prompt, one answer, one text.

#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "server/answer_writer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace millrace::server {

/// What is known of a response before anything was generated.
struct ResponseHead {
  text::Json object;       // the response object: status in_progress, no output, no usage
  std::string message_id;  // of the one output item
  const text::Tokenizer* tokenizer = nullptr;  // spells log-probabilities' tokens; nullptr where none were asked for
};

/// The object that ends a response, streamed or not, and that is stored.
text::Json response_of(const ResponseHead& head, const Answer& answer, const Totals& totals);

std::unique_ptr<AnswerWriter> make_response_writer(std::shared_ptr<const ResponseHead> head);

}  // namespace millrace::server
