#include "server/writer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "server/json_text.h"

namespace millrace::server {
namespace {

double per_second(int count, Microseconds us) { return us > 0 ? count * 1e6 / static_cast<double>(us) : 0; }
double ms(Microseconds us) { return static_cast<double>(us) / 1000; }
double ms_each(int count, Microseconds us) { return count > 0 ? ms(us) / count : 0; }

std::string_view bytes_of(const text::Tokenizer& tokenizer, TokenId token) {
  const std::string_view piece = tokenizer.piece(token);
  return piece.empty() || tokenizer.is_special(token) ? tokenizer.spelling(token).value_or("") : piece;
}

void append_token(std::string& out, TokenId token, float logprob, const text::Tokenizer& tokenizer) {
  out += "{\"token\":";
  append_json_string(out, token_label(tokenizer, token));
  out += ",\"logprob\":";
  append_logprob(out, logprob);
  out += ",\"bytes\":";
  append_json_bytes(out, bytes_of(tokenizer, token));
}

}  // namespace

std::string_view finish_reason(engine::Finish finish) { return finish == engine::Finish::length ? "length" : "stop"; }

std::string stop_reason(const Ending& ending, std::span<const std::string> stop) {
  if (const auto* string = std::get_if<engine::StopString>(&ending.stopped_by)) return json_string(stop[static_cast<std::size_t>(string->index)]);
  if (const auto* token = std::get_if<engine::StopToken>(&ending.stopped_by)) return std::to_string(token->id);
  return "null";
}

std::string usage_json(const Totals& totals) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}},)"
                     R"("completion_tokens_details":{{"reasoning_tokens":{}}}}})",
                     totals.prompt_tokens, totals.completion_tokens, totals.prompt_tokens + totals.completion_tokens, totals.cached_tokens,
                     totals.reasoning_tokens);
}

std::string progress_json(int index, const AnswerWriter::Progress& progress) {
  return fmt::format(R"("prompt_progress":{{"index":{},"total":{},"cache":{},"processed":{}}})", index, progress.total, progress.cached, progress.done);
}

std::string token_label(const text::Tokenizer& tokenizer, TokenId token) {
  const std::string_view bytes = bytes_of(tokenizer, token);
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string label = "bytes:";
  for (const char c : bytes) fmt::format_to(std::back_inserter(label), "\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return label;
}

std::string chat_logprobs(std::span<const engine::TokenEvent> tokens, const text::Tokenizer& tokenizer) {
  std::string out = "[";
  for (const engine::TokenEvent& token : tokens) {
    if (out.size() > 1) out += ',';
    append_token(out, token.id, token.logprob, tokenizer);
    out += ",\"top_logprobs\":[";
    for (std::size_t i = 0; i < token.top.size(); ++i) {
      if (i > 0) out += ',';
      append_token(out, token.top[i].token, token.top[i].logprob, tokenizer);
      out += '}';
    }
    out += "]}";
  }
  return out + "]";
}

void Timings::add(const Ending& ending, bool first_of_prompt) {
  if (first_of_prompt) {
    prompt_tokens_ += ending.usage.prompt_tokens - ending.usage.cached_tokens;
    cached_tokens_ += ending.usage.cached_tokens;
    prompt_us_ += ending.usage.prefill_us;
  }
  answer_tokens_ += ending.usage.completion_tokens;
  answer_us_ = std::max(answer_us_, ending.usage.decode_us);
}

std::string Timings::json() const {
  return fmt::format(R"({{"cache_n":{},"prompt_n":{},"prompt_ms":{:.3f},"prompt_per_token_ms":{:.3f},"prompt_per_second":{:.3f},)"
                     R"("predicted_n":{},"predicted_ms":{:.3f},"predicted_per_token_ms":{:.3f},"predicted_per_second":{:.3f}}})",
                     cached_tokens_, prompt_tokens_, ms(prompt_us_), ms_each(prompt_tokens_, prompt_us_), per_second(prompt_tokens_, prompt_us_),
                     answer_tokens_, ms(answer_us_), ms_each(answer_tokens_, answer_us_), per_second(answer_tokens_, answer_us_));
}

}  // namespace millrace::server
