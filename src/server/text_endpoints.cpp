#include "server/text_endpoints.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/chat_prompt.h"
#include "server/field_table.h"
#include "server/json_text.h"
#include "server/request_fields.h"
#include "text/prompt.h"

namespace millrace::server {
namespace {

using text::Json;

Result<std::vector<TokenId>> read_tokens(const Fields& fields, RequestContext& context) {
  if (fields.find("messages") != nullptr) {
    MILLRACE_TRY(prompt, read_chat_prompt(fields, context));
    return encode(prompt, context);
  }
  const bool llama_style = fields.find("content") != nullptr;
  const auto text = fields.string(llama_style ? "content" : "prompt");
  if (!text) return field_error("content", "expected one of content, prompt or messages, got none");
  const text::Tokenizer& tokenizer = *context.model->tokenizer;
  const bool add_special = fields.boolean("add_special", fields.boolean("add_special_tokens", !llama_style));
  if (!fields.boolean("parse_special", true)) {
    auto ids = tokenizer.encode(*text, text::Specials::as_text);
    return add_special ? tokenizer.add_special(std::move(ids)) : std::move(ids);
  }
  return add_special ? text::encode_prompt(tokenizer, *text) : tokenizer.encode(*text, text::Specials::as_control);
}

/// {"id", "piece"}: a text, or bytes where it is none by itself.
std::string piece_json(const text::Tokenizer& tokenizer, TokenId id) {
  const std::string_view piece = tokenizer.is_special(id) ? tokenizer.spelling(id).value_or("") : tokenizer.piece(id);
  std::string out = fmt::format("{{\"id\":{},\"piece\":", id);
  if (is_valid_utf8(piece)) append_json_string(out, piece);
  else append_json_bytes(out, piece);
  return out + "}";
}

}  // namespace

Result<std::string> answer_tokenize(const Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kTokenize, context));
  const Fields fields(body, kTokenize);
  MILLRACE_TRY(ids, read_tokens(fields, context));
  const text::Tokenizer& tokenizer = *context.model->tokenizer;
  const bool with_pieces = fields.boolean("with_pieces", false);
  std::string out = "{\"tokens\":[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += with_pieces ? piece_json(tokenizer, ids[i]) : std::to_string(ids[i]);
  }
  out += fmt::format("],\"count\":{},\"max_model_len\":{}", ids.size(), context.model->context_tokens);
  if (fields.boolean("return_token_strs", false)) {
    out += ",\"token_strs\":[";
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, tokenizer.spelling(ids[i]).value_or(""));
    }
    out += ']';
  }
  return out + "}";
}

Result<std::string> answer_detokenize(const Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kDetokenize, context));
  const Fields fields(body, kDetokenize);
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr) return field_error("tokens", "expected a list of token ids, got nothing");
  MILLRACE_TRY(ids, read_ids(*tokens, "tokens", context));
  const std::string text = json_string(context.model->tokenizer->decode(ids, !fields.boolean("skip_special_tokens", false)));
  return fmt::format("{{\"content\":{},\"prompt\":{}}}", text, text);
}

Result<std::string> answer_apply_template(const Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kApplyTemplate, context));
  MILLRACE_TRY(prompt, read_chat_prompt(Fields(body, kApplyTemplate), context));
  MILLRACE_TRY(rendered, render(prompt, context));
  return fmt::format("{{\"prompt\":{}}}", json_string(rendered.text));
}

}  // namespace millrace::server
