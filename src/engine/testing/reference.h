#pragma once

// What a request must give, computed without an engine: token by token, from the whole text so far. And helpers that
// read a handle to its end.

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/testing/fake_runner.h"
#include "engine/testing/fake_tokenizer.h"

namespace millrace::engine::testing {

struct Answer {
  std::string text;
  std::vector<TokenId> ids;
  std::optional<Finish> finished;
  StopReason stop_reason;
  std::optional<Error> error;
  Usage usage;
  CacheReport cache;
};

/// Answer number `number` by definition; stop strings are left to the caller.
inline Answer answer_alone(const Request& request, const text::Tokenizer& tokenizer, std::uint64_t number = 0) {
  Answer answer;
  sampling::TokenCounts counts;
  for (const TokenId token : request.prompt) counts.add_prompt(token);
  std::vector<TokenId> tokens = request.prompt;
  text::Detokenizer detokenizer(tokenizer, true, request.keep_special);
  answer.finished = Finish::length;
  for (int i = 0; i < request.max_new_tokens; ++i) {
    auto row = row_of(state_after(tokens), kVocab);
    std::vector<std::byte> scratch(sampling::scratch_bytes(kVocab));
    sampling::Sampled sampled;
    sampling::sample(row, {}, counts, request.sampling, {request.sampling.seed, number, tokens.size()}, scratch, sampled);
    const TokenId token = sampled.token;
    counts.add_generated(token);
    tokens.push_back(token);
    answer.ids.push_back(token);
    if (token == kEnd && !request.ignore_eos) {
      answer.finished = Finish::stop;
      break;
    }
    answer.text += detokenizer.push(token);
  }
  answer.text += detokenizer.finish();
  return answer;
}

/// Reads until the last event.
inline Answer read_all(Handle& handle) {
  Answer answer;
  while (!answer.finished) {
    auto event = handle.next(std::chrono::seconds(60));
    if (!event) break;
    answer.text += event->text;
    for (const TokenEvent& token : event->tokens) answer.ids.push_back(token.id);
    answer.finished = event->finished;
    answer.stop_reason = event->stop_reason;
    answer.error = event->error;
    answer.usage = event->usage;
    answer.cache = event->cache;
  }
  return answer;
}

}  // namespace millrace::engine::testing
