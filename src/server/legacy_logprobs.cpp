#include "server/legacy_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "server/json_text.h"
#include "server/writer_parts.h"

namespace millrace::server {
namespace {

/// Bytes that begin a character: pieces of one character count once, whoever has its first byte.
int characters(std::string_view piece) {
  return static_cast<int>(std::ranges::count_if(piece, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void separate(std::string& list) {
  if (!list.empty()) list += ',';
}

}  // namespace

void LegacyLogprobs::add_label(TokenId token) {
  separate(tokens_);
  append_json_string(tokens_, token_label(*tokenizer_, token));
  separate(offsets_);
  offsets_ += std::to_string(*offset_);
  if (keep_special_ || !tokenizer_->is_special(token)) *offset_ += characters(tokenizer_->piece(token));
}

/// The token itself is always among the top; two tokens may have one label, and a key stands once.
void LegacyLogprobs::add_known(TokenId token, float logprob, std::span<const sampling::TokenLogprob> top) {
  separate(logprobs_);
  append_logprob(logprobs_, logprob);
  std::vector<std::string> labels;
  const auto append = [&](TokenId id, float value) {
    std::string label = token_label(*tokenizer_, id);
    if (std::ranges::find(labels, label) != labels.end()) return;
    tops_ += labels.empty() ? "" : ",";
    append_json_string(tops_, label);
    tops_ += ':';
    append_logprob(tops_, value);
    labels.push_back(std::move(label));
  };
  separate(tops_);
  tops_ += '{';
  for (const sampling::TokenLogprob& one : top) append(one.token, one.logprob);
  append(token, logprob);
  tops_ += '}';
}

void LegacyLogprobs::add(const engine::TokenEvent& token) {
  add_label(token.id);
  add_known(token.id, token.logprob, token.top);
}

void LegacyLogprobs::add_prompt(const ToldPrompt& prompt, int n_top) {
  for (std::size_t i = 0; i < prompt.ids.size(); ++i) {
    add_label(prompt.ids[i]);
    const int position = static_cast<int>(i);
    if (i > 0 && position < prompt.logprobs->known()) {
      const auto top = prompt.logprobs->top(position);
      add_known(prompt.ids[i], prompt.logprobs->at(position).logprob, top.first(std::min(top.size(), static_cast<std::size_t>(n_top))));
    } else {
      for (std::string* list : {&logprobs_, &tops_}) separate(*list), *list += "null";
    }
  }
}

std::string LegacyLogprobs::json() const {
  return fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})", tokens_, logprobs_, tops_, offsets_);
}

}  // namespace millrace::server
