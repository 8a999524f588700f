#include "server/capabilities.h"

#include <nlohmann/json.hpp>

#include "server/api_bodies.h"
#include "server/field_table.h"

namespace millrace::server {
namespace {

using text::Json;

/// {"/v1/completions": {"applied": ["prompt", ...], "ignored": {"user": "why"}, "refused": {"tools": "why"}}, ...}
Json fields_by_endpoint(std::span<const Route> routes) {
  Json out = Json::object();
  for (const Route& route : routes) {
    const auto body = body_of_endpoint(route.method, route.path);
    if (!body) continue;
    Json applied = Json::array(), ignored = Json::object(), refused = Json::object();
    for (const Field& field : fields()) {
      if ((field.bodies & *body) == 0) continue;
      if (field.treatment == Treatment::applied) applied.push_back(field.name);
      else (field.treatment == Treatment::ignored ? ignored : refused)[field.name] = field.doc;
    }
    out[std::string(route.path)] = {{"applied", std::move(applied)}, {"ignored", std::move(ignored)}, {"refused", std::move(refused)}};
  }
  return out;
}

}  // namespace

Json capabilities_body(const ServedModel& model, const ServerConfig& config, std::span<const Route> routes) {
  Json endpoints = Json::array();
  for (const Route& route : routes)
    endpoints.push_back({{"method", route.method}, {"path", route.path}, {"needs_key", !route.open}, {"what", route.what}});
  const auto seconds = [](std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; };
  const ConnectionLimits& limits = config.limits;
  Json features = {{"streaming", true},
                   {"chat", model.chat_template != nullptr},
                   {"embeddings", true},
                   {"log_probabilities", true},
                   {"several_answers", true},
                   {"prefix_cache", true},
                   {"stored_responses", config.max_stored_responses > 0},
                   {"tools", false},
                   {"structured_output", false},
                   {"images", false},
                   {"strict_fields", config.strict}};
  if (model.chat_template == nullptr) features["no_chat_because"] = model.no_template_because;
  return {{"object", "capabilities"},
          {"model", {{"names", model.names}, {"context_tokens", model.context_tokens}, {"embedding_dim", model.embedding_dim}, {"system_fingerprint", model.fingerprint}, {"about", model.about}}},
          {"features", std::move(features)},
          {"limits",
           {{"context_tokens", model.context_tokens},
            {"answers", engine::Engine::kMostAnswers},
            {"body_bytes", limits.body_bytes},
            {"header_bytes", limits.header_bytes},
            {"unsent_bytes", limits.max_unsent_bytes},
            {"connections", limits.max_connections},
            {"stored_responses", config.max_stored_responses},
            {"header_timeout_s", seconds(limits.header_timeout)},
            {"body_timeout_s", seconds(limits.body_timeout)},
            {"idle_timeout_s", seconds(limits.idle_timeout)},
            {"write_timeout_s", seconds(limits.write_timeout)}}},
          {"endpoints", std::move(endpoints)},
          {"fields", fields_by_endpoint(routes)}};
}

}  // namespace millrace::server
