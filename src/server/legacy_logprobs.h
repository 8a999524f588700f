#pragma once

// Log-probabilities as /v1/completions tells them: four lists side by side, {"tokens", "token_logprobs", "top_logprobs", "text_offset"}.

#include <span>
#include <string>

#include "engine/engine.h"
#include "server/told_prompt.h"
#include "text/tokenizer.h"

namespace millrace::server {

class LegacyLogprobs {
 public:
  /// `offset`: characters of the answer's text before the first token; counted on by add().
  LegacyLogprobs(const text::Tokenizer& tokenizer, bool keep_special, int& offset) : tokenizer_(&tokenizer), keep_special_(keep_special), offset_(&offset) {}

  void add(const engine::TokenEvent& token);

  /// The tokens of a prompt; nothing is known of the first.
  void add_prompt(const ToldPrompt& prompt, int n_top);

  std::string json() const;

 private:
  void add_label(TokenId token);
  void add_known(TokenId token, float logprob, std::span<const sampling::TokenLogprob> top);

  const text::Tokenizer* tokenizer_;
  bool keep_special_;
  int* offset_;
  std::string tokens_, logprobs_, tops_, offsets_;
};

}  // namespace millrace::server
