#include "server/raw_prompt.h"

#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

#include "server/request_fields.h"
#include "text/prompt.h"

namespace millrace::server {
namespace {

using text::Json;

Result<RawPrompt> of_text(const std::string& text, const std::string& where, bool add_special, const RequestContext& context) {
  const text::Tokenizer& tokenizer = *context.model->tokenizer;
  RawPrompt prompt{text, add_special ? text::encode_prompt(tokenizer, text) : tokenizer.encode(text, text::Specials::as_control)};
  if (prompt.ids.empty()) return field_error(where, "the text has no tokens");
  return prompt;
}

Result<RawPrompt> of_ids(const Json& ids, const std::string& where, const RequestContext& context) {
  if (ids.empty()) return field_error(where, "expected at least one token id, got []");
  MILLRACE_TRY(read, read_ids(ids, where, context));
  return RawPrompt{std::nullopt, std::move(read)};
}

/// How families spell what opens the text before a gap, the text behind it, and the gap.
struct GapWords { std::string_view before, behind, gap; };
constexpr std::array kGapWords = {GapWords{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, GapWords{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                  GapWords{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}};

std::optional<TokenId> control_token(const text::Tokenizer& tokenizer, std::string_view spelling) {
  const auto ids = tokenizer.encode(spelling, text::Specials::as_control);
  return ids.size() == 1 && tokenizer.spelling(ids[0]) == spelling ? std::optional(ids[0]) : std::nullopt;
}

}  // namespace

Result<std::vector<RawPrompt>> read_raw_prompts(const Fields& fields, const std::string& name, const RequestContext& context) {
  const Json* found = fields.find(name);
  if (found == nullptr || !(found->is_string() || found->is_array()) || found->empty())
    return field_error(name, "expected a string, a list of strings, of token ids, or of lists of token ids, got {}", found == nullptr ? "nothing" : shown(*found));
  const Json& value = *found;
  const bool add_special = fields.boolean("add_special_tokens", true);
  std::vector<RawPrompt> prompts;
  if (value.is_string()) {
    MILLRACE_TRY(prompt, of_text(value.get_ref<const std::string&>(), name, add_special, context));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  if (value.front().is_number()) {
    MILLRACE_TRY(prompt, of_ids(value, name, context));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  if (value.size() > kMostPrompts) return field_error(name, "expected at most {} prompts, got {}", kMostPrompts, value.size());
  for (const Json& one : value) {
    const std::string at = fmt::format("{}[{}]", name, prompts.size());
    if (one.type() != value.front().type() || (!one.is_string() && !one.is_array())) return field_error(at, "expected {}, got {}", value.front().is_array() ? "a list of token ids" : "a string", shown(one));
    MILLRACE_TRY(prompt, one.is_string() ? of_text(one.get_ref<const std::string&>(), at, add_special, context) : of_ids(one, at, context));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Result<std::vector<TokenId>> encode_around_gap(const std::string& before, const std::string& behind, const RequestContext& context) {
  const text::Tokenizer& tokenizer = *context.model->tokenizer;
  for (const GapWords& words : kGapWords) {
    const auto prefix = control_token(tokenizer, words.before), suffix = control_token(tokenizer, words.behind), middle = control_token(tokenizer, words.gap);
    if (!prefix || !suffix || !middle) continue;
    std::vector<TokenId> ids = {*prefix};
    const auto append = [&](const std::string& text, TokenId mark) {
      const auto more = tokenizer.encode(text, text::Specials::as_control);
      ids.insert(ids.end(), more.begin(), more.end());
      ids.push_back(mark);
    };
    append(before, *suffix);
    append(behind, *middle);
    return ids;
  }
  return field_error("suffix", "not supported by this model: its vocabulary has no fill-in-the-middle tokens");
}

}  // namespace millrace::server
