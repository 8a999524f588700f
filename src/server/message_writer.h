#pragma once

// Says an answer in the events of Anthropic's Messages API, or as one message object. One prompt, one answer, one text block.

#include <memory>
#include <string>
#include <vector>

#include "server/answer_writer.h"

namespace millrace::server {

/// What is known of a message before anything was generated.
struct MessageHead {
  std::string id, model;
  int prompt_tokens = 0;
  std::vector<std::string> stop;  // as the engine has them: an ending says which by index
};

std::unique_ptr<AnswerWriter> make_message_writer(MessageHead head);

}  // namespace millrace::server
