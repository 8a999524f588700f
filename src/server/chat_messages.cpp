// OpenAI's messages, read strictly.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "server/chat_prompt.h"
#include "server/json_body.h"
#include "server/tame_name.h"

namespace millrace::server {
namespace {

using text::Json;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

/// Absent and null are the same.
const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::string> read_part(const Json& part, const std::string& where) {
  if (!part.is_object()) return field_error(where, "expected an object with type and text, got {}", shown(part));
  const Json* type = find(part, "type");
  if (type == nullptr || !type->is_string()) return field_error(where + ".type", "expected \"text\", got {}", type == nullptr ? "nothing" : shown(*type));
  if (*type != "text") return field_error(where + ".type", "this model reads text, got a part of type {}", shown(*type));
  const Json* text = find(part, "text");
  if (text == nullptr || !text->is_string()) return field_error(where + ".text", "expected a string, got {}", text == nullptr ? "nothing" : shown(*text));
  return text->get<std::string>();
}

/// Templates print arguments as objects; a text that is none stays one.
Json arguments_of(const Json& arguments) {
  if (!arguments.is_string()) return arguments;
  auto parsed = parse_body(arguments.get_ref<const std::string&>());
  return parsed ? *std::move(parsed) : arguments;
}

Result<Json> read_tool_calls(const Json& calls, const std::string& where) {
  if (!calls.is_array()) return field_error(where, "expected a list, got {}", shown(calls));
  Json out = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", where, i);
    const Json* function = calls[i].is_object() ? find(calls[i], "function") : nullptr;
    if (function == nullptr || !function->is_object()) return field_error(at + ".function", "expected an object with name and arguments");
    const Json *name = find(*function, "name"), *arguments = find(*function, "arguments");
    if (name == nullptr || !name->is_string()) return field_error(at + ".function.name", "expected a string, got {}", name == nullptr ? "nothing" : shown(*name));
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object())
      return field_error(at + ".function.arguments", "expected JSON in a string, or an object, got {}", shown(*arguments));
    Json call = calls[i];
    call["function"]["arguments"] = arguments == nullptr ? Json::object() : arguments_of(*arguments);
    out.push_back(std::move(call));
  }
  return out;
}

Result<std::string> read_role(const Json& message, const std::string& where) {
  const Json* role = find(message, "role");
  if (role == nullptr || !role->is_string() || std::ranges::find(kRoles, role->get_ref<const std::string&>()) == kRoles.end())
    return field_error(where + ".role", "expected one of {}, got {}", fmt::join(kRoles, ", "), role == nullptr ? "nothing" : shown(*role));
  // What OpenAI calls developer now, it called system, and templates know no other name.
  return *role == "developer" ? "system" : role->get<std::string>();
}

/// Everything beside role and content.
Result<void> read_rest(const Json& message, const std::string& where, Json& out, RequestContext& context) {
  for (const auto& [key, value] : message.get_ref<const Json::object_t&>()) {
    if (value.is_null() || key == "role" || key == "content") continue;
    if (key == "name" || key == "tool_call_id" || key == "reasoning_content") {
      if (!value.is_string()) return field_error(where + "." + key, "expected a string, got {}", shown(value));
      out[key] = value;
    } else if (key == "tool_calls") {
      MILLRACE_TRY(calls, read_tool_calls(value, where + ".tool_calls"));
      if (!calls.empty()) out[key] = std::move(calls);
    } else if (key == "function_call") {
      return field_error(where + "." + key, "not supported: OpenAI's old word for tool_calls");
    } else if (context.strict) {
      return field_error(where, "{} is no field of a message, and --strict refuses those", shown(Json(key)));
    } else if (!value.empty()) {
      context.note_unknown(where + "." + tame_name(key));
    }
  }
  return {};
}

Result<Json> read_message(const Json& message, const std::string& where, RequestContext& context) {
  if (!message.is_object()) return field_error(where, "expected an object with role and content, got {}", shown(message));
  MILLRACE_TRY(role, read_role(message, where));
  Json out = {{"role", role}, {"content", ""}};
  MILLRACE_TRY_VOID(read_rest(message, where, out, context));
  const Json* content = find(message, "content");
  if (content == nullptr) {
    if (role != "assistant" || !out.contains("tool_calls")) return field_error(where + ".content", "expected a string or a list of text parts, got nothing");
    return out;
  }
  MILLRACE_TRY(text, read_content(*content, where + ".content", "text parts", read_part));
  out["content"] = std::move(text);
  return out;
}

}  // namespace

Result<std::string> read_content(const Json& content, const std::string& where, const char* parts,
                                 Result<std::string> (*read_part)(const Json& part, const std::string& where)) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.empty()) return field_error(where, "expected a string or a list of {}, got {}", parts, shown(content));
  std::string joined;
  for (std::size_t i = 0; i < content.size(); ++i) {
    MILLRACE_TRY(text, read_part(content[i], fmt::format("{}[{}]", where, i)));
    if (i > 0) joined += '\n';
    joined += text;
  }
  return joined;
}

Result<Json> read_messages(const Json& messages, RequestContext& context) {
  if (!messages.is_array() || messages.empty()) return field_error("messages", "expected a list of at least one message, got {}", shown(messages));
  Json out = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    MILLRACE_TRY(message, read_message(messages[i], fmt::format("messages[{}]", i), context));
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace millrace::server
