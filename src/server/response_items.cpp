#include "server/response_items.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "server/field_table.h"
#include "server/response_object.h"

namespace millrace::server {
namespace {

using text::Json;

constexpr std::size_t kMostItems = 100'000;  // as of messages: each becomes some hundred bytes more than it was

/// The string at `key`, which has to be there.
Result<std::string> read_string(const Json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end()) return field_error(fmt::format("{}.{}", path, key), "missing, expected a string");
  if (!found->is_string()) return field_error(fmt::format("{}.{}", path, key), "expected a string, got {}", shown(*found));
  return found->get<std::string>();
}

Json text_part(const std::string& role, std::string text) {
  if (role == "assistant") return output_text(std::move(text), Json::array());
  return {{"type", "input_text"}, {"text", std::move(text)}};
}

Result<Json> read_part(const Json& part, const std::string& role, const std::string& path) {
  if (!part.is_object()) return field_error(path, "expected an object, got {}", shown(part));
  MILLRACE_TRY(type, read_string(part, "type", path));
  if (type != "input_text" && type != "output_text")
    return field_error(path + ".type", "expected input_text or output_text, others are not supported; got {}", shown(part["type"]));
  MILLRACE_TRY(text, read_string(part, "text", path));
  return text_part(role, std::move(text));
}

Result<Json> read_content(const Json& item, const std::string& role, const std::string& path) {
  const auto content = item.find("content");
  if (content == item.end()) return field_error(path + ".content", "missing, expected a string or a list of parts");
  if (content->is_string()) return Json::array({text_part(role, content->get<std::string>())});
  if (!content->is_array() || content->empty()) return field_error(path + ".content", "expected a string or a list of parts, got {}", shown(*content));
  Json parts = Json::array();
  for (std::size_t i = 0; i < content->size(); ++i) {
    MILLRACE_TRY(part, read_part((*content)[i], role, fmt::format("{}.content[{}]", path, i)));
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<Json> read_item(const Json& item, const std::string& path, std::string id) {
  if (!item.is_object()) return field_error(path, "expected an object, got {}", shown(item));
  if (const auto type = item.find("type"); type != item.end() && *type != "message")
    return field_error(path + ".type", "expected message, other items are not supported; got {}", shown(*type));
  MILLRACE_TRY(role, read_string(item, "role", path));
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    return field_error(path + ".role", "expected one of user, assistant, system, developer; got {}", shown(item["role"]));
  MILLRACE_TRY(content, read_content(item, role, path));
  if (const auto own = item.find("id"); own != item.end() && own->is_string()) id = own->get<std::string>();
  return Json{{"type", "message"}, {"id", std::move(id)}, {"status", "completed"}, {"role", std::move(role)}, {"content", std::move(content)}};
}

}  // namespace

Result<Json> read_input_items(const Json& input, const std::string& request_id) {
  if (input.is_string()) return read_input_items(Json::array({{{"role", "user"}, {"content", input}}}), request_id);
  if (!input.is_array() || input.empty()) return field_error("input", "expected a string or a list of items, got {}", shown(input));
  if (input.size() > kMostItems) return field_error("input", "{} items, at most {} are possible", input.size(), kMostItems);
  Json items = Json::array();
  for (std::size_t i = 0; i < input.size(); ++i) {
    MILLRACE_TRY(item, read_item(input[i], fmt::format("input[{}]", i), fmt::format("msg_{}_{}", request_id, i)));
    items.push_back(std::move(item));
  }
  return items;
}

void append_item_messages(Json& messages, const Json& items) {
  for (const Json& item : items) {
    const Json& parts = item["content"];
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i) text.append(i > 0 ? "\n" : "").append(parts[i]["text"].get_ref<const std::string&>());
    // As in chat completions: templates know developer by its former name.
    messages.push_back({{"role", item["role"] == "developer" ? Json("system") : item["role"]}, {"content", std::move(text)}});
  }
}

}  // namespace millrace::server
