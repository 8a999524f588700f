#include "server/message_prompt.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace millrace::server {
namespace {

using text::Json;

/// nullptr: absent.
const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

Result<std::string> read_block(const Json& block, const std::string& path) {
  if (!block.is_object()) return field_error(path, "expected an object with type and text, got {}", shown(block));
  const Json* type = find(block, "type");
  if (type == nullptr || *type != "text")
    return field_error(path + ".type", "expected \"text\", other blocks are not supported; got {}", type == nullptr ? "nothing" : shown(*type));
  const Json* text = find(block, "text");
  if (text == nullptr || !text->is_string()) return field_error(path + ".text", "expected a string, got {}", text == nullptr ? "nothing" : shown(*text));
  return text->get<std::string>();
}

Result<std::string> read_blocks(const Json& content, const std::string& path) { return read_content(content, path, "text blocks", read_block); }

Result<void> append_message(Json& messages, const Json& message, const std::string& path) {
  if (!message.is_object()) return field_error(path, "expected an object with role and content, got {}", shown(message));
  const Json* role = find(message, "role");
  if (role == nullptr || (*role != "user" && *role != "assistant"))
    return field_error(path + ".role", "expected one of user, assistant; got {}", role == nullptr ? "nothing" : shown(*role));
  const Json* content = find(message, "content");
  if (content == nullptr) return field_error(path + ".content", "expected a string or a list of text blocks, got nothing");
  MILLRACE_TRY(text, read_blocks(*content, path + ".content"));
  if (!messages.empty() && messages.back()["role"] == *role) messages.back()["content"].get_ref<std::string&>().append("\n").append(text);
  else messages.push_back({{"role", *role}, {"content", std::move(text)}});
  return {};
}

}  // namespace

Result<ChatPrompt> read_message_prompt(const Fields& fields) {
  ChatPrompt prompt;
  prompt.messages = Json::array();
  if (const Json* system = fields.find("system")) {
    MILLRACE_TRY(text, read_blocks(*system, "system"));
    prompt.messages.push_back({{"role", "system"}, {"content", std::move(text)}});
  }
  const Json* messages = fields.find("messages");
  if (messages == nullptr) return field_error("messages", "expected a list of at least one message, got nothing");
  for (std::size_t i = 0; i < messages->size(); ++i) MILLRACE_TRY_VOID(append_message(prompt.messages, (*messages)[i], fmt::format("messages[{}]", i)));
  prompt.continue_final_message = prompt.messages.back()["role"] == "assistant";
  prompt.add_generation_prompt = !prompt.continue_final_message;
  MILLRACE_TRY_VOID(read_template_variables(fields, prompt));
  return prompt;
}

}  // namespace millrace::server
