#include "server/completion_writer.h"

#include <fmt/core.h>

#include <utility>

#include "server/json_text.h"
#include "server/legacy_logprobs.h"

namespace millrace::server {
namespace {

constexpr std::string_view kObject = "text_completion";  // whole and in chunks

}  // namespace

CompletionWriter::CompletionWriter(AnswerStyle style, std::vector<EchoedPrompt> prompts, bool echo, bool keep_special)
    : ChoiceWriter(std::move(style), kObject), prompts_(std::move(prompts)), echo_(echo), keep_special_(keep_special), told_(static_cast<std::size_t>(style_.answers)) {}

std::string CompletionWriter::logprobs(std::size_t index, bool with_prompt, std::span<const engine::TokenEvent> tokens) {
  if (style_.top_logprobs < 0) return "null";
  LegacyLogprobs lists(*style_.tokenizer, keep_special_, told_[index].characters);
  const EchoedPrompt& prompt = prompt_of(index);
  if (with_prompt && echo_ && prompt.logprobs) lists.add_prompt(prompt, style_.top_logprobs);
  for (const engine::TokenEvent& token : tokens) lists.add(token);
  return lists.json();
}

std::string CompletionWriter::echo(std::size_t index) {
  if (!echo_ || std::exchange(told_[index].echoed, true)) return "";
  return chunk(static_cast<int>(index), fmt::format(R"(,"text":{},"logprobs":{},"finish_reason":null)", json_string(prompt_of(index).echo), logprobs(index, true, {})));
}

std::string CompletionWriter::piece(int index, const Piece& piece) {
  const auto i = static_cast<std::size_t>(index);
  std::string out = echo(i);
  const bool tells_tokens = style_.top_logprobs >= 0 && !piece.tokens.empty();
  if (piece.text.empty() && !tells_tokens) return out;
  std::string inside = ",\"text\":";
  append_json_string(inside, piece.text);
  inside += ",\"logprobs\":";
  if (tells_tokens) inside += logprobs(i, false, piece.tokens);
  else inside += "null";
  inside += ",\"finish_reason\":null";
  return out + chunk(index, inside);
}

std::string CompletionWriter::end(int index, const Ending& ending) {
  const auto i = static_cast<std::size_t>(index);
  timings_.add(ending, is_first_of_prompt(i));
  return echo(i) + chunk(index, fmt::format(R"(,"text":"","logprobs":null,"finish_reason":"{}","stop_reason":{})", finish_reason(ending.finish), stop_reason(ending, style_.stop)));
}

std::string CompletionWriter::whole(std::span<const Answer> answers, const Totals& totals) {
  std::string out = head_of(kObject);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    const EchoedPrompt& prompt = prompt_of(i);
    timings_.add(answer.ending, is_first_of_prompt(i));
    out += fmt::format("{}{{\"index\":{},\"text\":{},\"logprobs\":{}", i > 0 ? "," : "", i, json_string(echo_ ? prompt.echo + answer.text : answer.text), logprobs(i, true, answer.tokens));
    if (prompt.tells_logprobs) out += ",\"prompt_logprobs\":" + prompt_logprobs_json(prompt, *style_.tokenizer);
    out += fmt::format(",\"finish_reason\":\"{}\",\"stop_reason\":{}}}", finish_reason(answer.ending.finish), stop_reason(answer.ending, style_.stop));
  }
  return out + "],\"usage\":" + usage_json(totals) + end_of_body();
}

}  // namespace millrace::server
