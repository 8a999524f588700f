#include "server/chat_prompt.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text/prompt.h"

namespace millrace::server {
namespace {

using text::Json;
using text::MarkedText;

/// Templates must see what was checked and counted, and the vocabulary's own tokens.
constexpr std::array<std::string_view, 6> kOwn = {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

Result<MarkedText> render_as_it_is(const ChatPrompt& prompt, Json messages, const RequestContext& context) {
  const ServedModel& model = *context.model;
  if (model.chat_template == nullptr)
    return Error{Code::unsupported, fmt::format("messages: this model has no chat template: {}", model.no_template_because), 0, "messages"};
  Json variables = prompt.template_variables.is_object() ? prompt.template_variables : Json::object();
  variables["messages"] = std::move(messages);
  variables["add_generation_prompt"] = prompt.add_generation_prompt;
  if (prompt.documents.is_array()) variables["documents"] = prompt.documents;
  auto rendered = text::render_chat(*model.tokenizer, *model.chat_template, std::move(variables), text::local_time(context.now_s));
  if (!rendered) return field_error("messages", "the chat template refuses them: {}", rendered.error().message);
  return rendered;
}

/// `text` up to `end`.
MarkedText first_bytes(const MarkedText& text, std::size_t end) {
  MarkedText cut;
  std::size_t at = 0;
  for (const MarkedText::Run& run : text.runs) {
    if (at >= end) break;
    cut.append(std::string_view(text.text).substr(at, std::min(run.length, end - at)), run.origin);
    at += run.length;
  }
  return cut;
}

/// Where the template puts the end of the last content is found by a mark behind it; the content may be empty, and templates trim blanks.
Result<MarkedText> render_open(const ChatPrompt& prompt, const RequestContext& context) {
  Json messages = prompt.messages;
  std::string& content = messages.back()["content"].get_ref<std::string&>();
  std::string mark = "\x02open\x03";
  while (content.find(mark) != std::string::npos) mark.insert(mark.size() - 1, "n");
  content += mark;
  MILLRACE_TRY(rendered, render_as_it_is(prompt, std::move(messages), context));
  const std::size_t end = rendered.text.rfind(mark);
  if (end == std::string::npos) return field_error("continue_final_message", "the chat template leaves out the last message");
  return first_bytes(rendered, end);
}

}  // namespace

Result<ChatPrompt> read_chat_prompt(const Fields& fields, RequestContext& context) {
  ChatPrompt prompt;
  const Json* messages = fields.find("messages");
  if (messages == nullptr) return field_error("messages", "expected a list of at least one message, got nothing");
  MILLRACE_TRY(read, read_messages(*messages, context));
  prompt.messages = std::move(read);
  prompt.continue_final_message = fields.boolean("continue_final_message", false);
  prompt.add_generation_prompt = fields.boolean("add_generation_prompt", !prompt.continue_final_message);
  if (prompt.continue_final_message && prompt.add_generation_prompt)
    return field_error("continue_final_message", "not together with add_generation_prompt: the answer goes on or begins");
  if (prompt.continue_final_message && prompt.messages.back()["role"] != "assistant")
    return field_error("continue_final_message", "the last message has role {}, expected \"assistant\"", shown(prompt.messages.back()["role"]));
  if (const Json* documents = fields.find("documents")) prompt.documents = *documents;
  MILLRACE_TRY_VOID(read_template_variables(fields, prompt));
  return prompt;
}

Result<void> read_template_variables(const Fields& fields, ChatPrompt& prompt) {
  const Json* variables = fields.find("chat_template_kwargs");
  if (variables == nullptr) return {};
  for (const std::string_view own : kOwn)
    if (variables->contains(std::string(own))) return field_error("chat_template_kwargs", "'{}' is not for requests to set here", own);
  prompt.template_variables = *variables;
  return {};
}

Result<MarkedText> render(const ChatPrompt& prompt, const RequestContext& context) {
  return prompt.continue_final_message ? render_open(prompt, context) : render_as_it_is(prompt, prompt.messages, context);
}

Result<std::vector<TokenId>> encode(const ChatPrompt& prompt, const RequestContext& context) {
  MILLRACE_TRY(rendered, render(prompt, context));
  auto ids = context.model->tokenizer->encode(rendered);
  if (ids.empty()) return field_error("messages", "the chat template makes no tokens of them");
  return ids;
}

}  // namespace millrace::server
