#pragma once

// chat.completion and chat.completion.chunk.

#include <string>

#include "server/choice_writer.h"
#include "server/told_prompt.h"

namespace millrace::server {

class ChatWriter : public ChoiceWriter {
 public:
  explicit ChatWriter(AnswerStyle style, ToldPrompt prompt = {});

  std::string begin() override;
  std::string piece(int index, const Piece& piece) override;
  std::string end(int index, const Ending& ending) override;
  std::string whole(std::span<const Answer> answers, const Totals& totals) override;

 private:
  std::string logprobs(std::span<const engine::TokenEvent> tokens) const;

  const ToldPrompt prompt_;
};

}  // namespace millrace::server
