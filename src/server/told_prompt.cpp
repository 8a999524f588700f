#include "server/told_prompt.h"

#include <fmt/core.h>

#include "server/json_text.h"
#include "server/writer_parts.h"

namespace millrace::server {

std::string prompt_logprobs_json(const ToldPrompt& prompt, const text::Tokenizer& tokenizer) {
  const engine::PromptLogprobs& known = *prompt.logprobs;
  std::string out = "[null";
  const auto append = [&](bool first, TokenId token, float logprob, int rank) {
    out += fmt::format("{}\"{}\":{{\"logprob\":", first ? "" : ",", token);
    append_logprob(out, logprob);
    out += fmt::format(",\"rank\":{},\"decoded_token\":{}}}", rank, json_string(token_label(tokenizer, token)));
  };
  for (int position = 1; position < known.known(); ++position) {
    const TokenId token = prompt.ids[static_cast<std::size_t>(position)];
    out += ",{";
    append(true, token, known.at(position).logprob, known.at(position).rank);
    int rank = 0;
    for (const sampling::TokenLogprob& one : known.top(position))
      if (++rank; one.token != token) append(false, one.token, one.logprob, rank);
    out += '}';
  }
  return out + "]";
}

}  // namespace millrace::server
