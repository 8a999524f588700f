#include "server/model_list.h"

#include <ctime>
#include <nlohmann/json.hpp>

namespace millrace::server {
namespace {

std::string rfc3339(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  const auto length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

/// OpenAI's keys, then Anthropic's, then vLLM's max_model_len and our own: clients read those they know.
text::Json entry(const ServedModel& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created_s},
          {"owned_by", "millrace"},
          {"type", "model"},
          {"display_name", name},
          {"created_at", rfc3339(model.created_s)},
          {"root", model.names.front()},
          {"max_model_len", model.context_tokens},
          {"system_fingerprint", model.fingerprint},
          {"about", model.about}};
}

}  // namespace

text::Json models_body(const ServedModel& model) {
  text::Json data = text::Json::array();
  for (const std::string& name : model.names) data.push_back(entry(model, name));
  return {{"object", "list"}, {"data", std::move(data)}, {"has_more", false}, {"first_id", model.names.front()}, {"last_id", model.names.back()}};
}

std::optional<text::Json> model_body(const ServedModel& model, std::string_view name) {
  for (const std::string& one : model.names)
    if (one == name) return entry(model, one);
  return std::nullopt;
}

}  // namespace millrace::server
