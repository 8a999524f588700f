#include "server/chat_writer.h"

#include <fmt/core.h>

#include <utility>

#include "server/json_text.h"

namespace millrace::server {

ChatWriter::ChatWriter(AnswerStyle style, ToldPrompt prompt) : ChoiceWriter(std::move(style), "chat.completion.chunk"), prompt_(std::move(prompt)) {}

std::string ChatWriter::logprobs(std::span<const engine::TokenEvent> tokens) const {
  if (style_.top_logprobs < 0) return "null";
  return fmt::format(R"({{"content":{},"refusal":null}})", chat_logprobs(tokens, *style_.tokenizer));
}

std::string ChatWriter::begin() {
  std::string out;
  for (int i = 0; i < style_.answers; ++i) out += chunk(i, R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null)");
  return out;
}

std::string ChatWriter::piece(int index, const Piece& piece) {
  const bool tells_tokens = style_.top_logprobs >= 0 && !piece.tokens.empty();
  if (piece.text.empty() && !tells_tokens) return "";
  std::string inside = ",\"delta\":{\"content\":";
  append_json_string(inside, piece.text);
  inside += "},\"logprobs\":";
  if (tells_tokens) inside += logprobs(piece.tokens);
  else inside += "null";
  inside += ",\"finish_reason\":null";
  return chunk(index, inside);
}

std::string ChatWriter::end(int index, const Ending& ending) {
  timings_.add(ending, /*first_of_prompt=*/index == 0);
  return chunk(index, fmt::format(R"(,"delta":{{}},"logprobs":null,"finish_reason":"{}","stop_reason":{})", finish_reason(ending.finish),
                                  stop_reason(ending, style_.stop)));
}

std::string ChatWriter::whole(std::span<const Answer> answers, const Totals& totals) {
  std::string out = head_of("chat.completion");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    timings_.add(answer.ending, i == 0);
    if (i > 0) out += ',';
    out += fmt::format(R"({{"index":{},"message":{{"role":"assistant","content":)", i);
    append_json_string(out, answer.text);
    out += fmt::format(R"(,"refusal":null}},"logprobs":{},"finish_reason":"{}","stop_reason":{}}})", logprobs(answer.tokens),
                       finish_reason(answer.ending.finish), stop_reason(answer.ending, style_.stop));
  }
  out += "],\"usage\":" + usage_json(totals);
  if (prompt_.logprobs) out += ",\"prompt_logprobs\":" + prompt_logprobs_json(prompt_, *style_.tokenizer);
  return out + end_of_body();
}

}  // namespace millrace::server
