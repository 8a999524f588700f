#pragma once

// A prompt whose log-probabilities are told beside an answer, and vLLM's way to tell them: prompt_logprobs.

#include <memory>
#include <string>
#include <vector>

#include "engine/prompt_logprobs.h"
#include "text/tokenizer.h"

namespace millrace::server {

struct ToldPrompt {
  std::vector<TokenId> ids;
  std::shared_ptr<const engine::PromptLogprobs> logprobs;  // null: not asked for. Complete when the first piece of the answer comes
};

/// [null, {"token id": {"logprob", "rank", "decoded_token"}, ...}, ...]: each prompt token and the likeliest ones there.
std::string prompt_logprobs_json(const ToldPrompt& prompt, const text::Tokenizer& tokenizer);

}  // namespace millrace::server
