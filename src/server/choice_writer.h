#pragma once

// Answers as OpenAI's choices: what chat.completion and text_completion have in common, which is all but the choice itself.

#include <string>
#include <string_view>

#include "server/answer_style.h"
#include "server/answer_writer.h"
#include "server/writer_parts.h"

namespace millrace::server {

class ChoiceWriter : public AnswerWriter {
 public:
  std::string progress(int index, const Progress& progress) override;
  std::string close(const Totals& totals) override;
  std::string failure(const ApiError& error) override { return error_event(error, Dialect::openai); }

 protected:
  /// `chunk_object`: what a chunk says that it is.
  ChoiceWriter(AnswerStyle style, std::string_view chunk_object);

  /// {"id": ..., "object": ..., up to the list of choices.
  std::string head_of(std::string_view object) const;
  /// A chunk with one choice: what is `inside` it behind its index.
  std::string chunk(int index, std::string_view inside) const;
  /// The timings, where they are asked for, and the last brace.
  std::string end_of_body() const;

  const AnswerStyle style_;
  Timings timings_;

 private:
  const std::string head_;  // of each chunk: escaped once, not per token
  const std::string tail_;  // behind its choices
};

}  // namespace millrace::server
