#pragma once

// What the chunks and bodies of several APIs have in common, as JSON text.

#include <span>
#include <string>
#include <string_view>

#include "server/answer_writer.h"
#include "text/tokenizer.h"

namespace millrace::server {

/// "stop" or "length"; what else ends an answer is an error and has no body.
std::string_view finish_reason(engine::Finish finish);

/// The stop string, the stop token's id, or null (vLLM's stop_reason).
std::string stop_reason(const Ending& ending, std::span<const std::string> stop);

/// OpenAI's usage object.
std::string usage_json(const Totals& totals);

/// "prompt_progress":{...}, in llama.cpp's words.
std::string progress_json(int index, const AnswerWriter::Progress& progress);

/// A token as it is shown beside a log-probability: its text, "bytes:\xe2\x82" where that is no text by itself, a control token's spelling.
std::string token_label(const text::Tokenizer& tokenizer, TokenId token);

/// OpenAI's chat form: [{"token", "logprob", "bytes", "top_logprobs"}, ...].
std::string chat_logprobs(std::span<const engine::TokenEvent> tokens, const text::Tokenizer& tokenizer);

/// llama.cpp's timings, over all answers of a request: prompts add up, answers run side by side.
class Timings {
 public:
  void add(const Ending& ending, bool first_of_prompt);
  std::string json() const;

 private:
  int prompt_tokens_ = 0, cached_tokens_ = 0, answer_tokens_ = 0;
  Microseconds prompt_us_ = 0, answer_us_ = 0;
};

}  // namespace millrace::server
