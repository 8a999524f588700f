#pragma once

// chat.completion and chat.completion.chunk.

#include <string>

#include "server/answer_style.h"
#include "server/answer_writer.h"
#include "server/legacy_logprobs.h"
#include "server/writer_parts.h"

namespace millrace::server {

class ChatWriter : public AnswerWriter {
 public:
  explicit ChatWriter(AnswerStyle style, ToldPrompt prompt = {});

  std::string begin() override;
  std::string piece(int index, const Piece& piece) override;
  std::string end(int index, const Ending& ending) override;
  std::string progress(int index, const Progress& progress) override;
  std::string close(const Totals& totals) override;
  std::string failure(const ApiError& error) override { return error_event(error, Dialect::openai); }
  std::string whole(std::span<const Answer> answers, const Totals& totals) override;

 private:
  /// A chunk with one choice: what is `inside` it behind its index.
  std::string chunk(int index, std::string_view inside) const;
  std::string logprobs(std::span<const engine::TokenEvent> tokens) const;

  AnswerStyle style_;
  ToldPrompt prompt_;
  std::string head_;  // of each chunk, up to the list of choices: escaped once, not per token
  std::string tail_;  // behind it
  Timings timings_;
};

}  // namespace millrace::server
