#include "server/openapi.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/ascii.h"
#include "server/api_bodies.h"
#include "server/field_table.h"

namespace millrace::server {
namespace {

using text::Json;

Json reference(const std::string& name) { return {{"$ref", "#/components/" + name}}; }
Json json_content(Json schema) { return {{"application/json", {{"schema", std::move(schema)}}}}; }

/// What "{}" in a path stands for, by the segment before it.
struct Parameter {
  std::string_view after, name, what;
};
constexpr Parameter kParameters[] = {
    {"/v1/models/", "model", "one of the names that are served"},
    {"/v1/responses/", "response_id", "the id of a stored response"},
};

const Parameter& parameter_of(std::string_view path) {
  constexpr static Parameter kSome{"", "id", "an id"};
  const auto at = path.find("{}");
  for (const Parameter& one : kParameters)
    if (path.substr(0, at) == one.after) return one;
  return kSome;
}

/// With the parameter's name: "/v1/models/{model}".
std::string named_path(std::string_view path) {
  std::string out(path);
  if (const auto at = out.find("{}"); at != out.npos) out.replace(at, 2, "{" + std::string(parameter_of(path).name) + "}");
  return out;
}

/// `path` as a part of a name: "_v1_chat_completions", "_v1_models_model".
std::string underscored(std::string_view path) {
  std::string out;
  bool plain = true;
  for (const char c : path) {
    const bool was_plain = std::exchange(plain, (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_');
    if (plain && !was_plain) out += '_';
    if (plain) out += c;
  }
  return out;
}

std::string operation_id(std::string_view method, const std::string& path) { return ascii_lower(method) + underscored(path); }
std::string schema_name(const std::string& path) { return underscored(path).substr(1) + "_request"; }

bool streams(std::optional<BodyOf> body) { return body == kChat || body == kCompletion || body == kResponse || body == kMessage; }

Json responses_of(const Route& route, std::optional<BodyOf> body) {
  Json content = route.path == "/metrics" ? Json{{"text/plain", {{"schema", {{"type", "string"}}}}}} : json_content({{"type", "object"}});
  if (streams(body)) content["text/event-stream"] = {{"schema", {{"type", "string"}, {"description", "with \"stream\": true"}}}};
  Json out = {{"200", {{"description", route.what}, {"content", std::move(content)}}}};
  const std::string error = route.dialect == Dialect::anthropic ? "AnthropicError" : "OpenAIError";
  const auto add = [&](const char* status) { out[status] = reference("responses/" + error); };
  if (route.method == "POST") add("400"), add("413"), add("415");
  if (!route.open) add("401");
  if (route.path.find("{}") != route.path.npos || body) add("404");
  if (route.method == "POST") add("408"), add("429");
  if (route.needs_model) add("503");
  else if (route.path == "/health" || route.path == "/ready") out["503"] = {{"description", "not yet, not now, or no more"}, {"content", json_content({{"type", "object"}})}};
  return out;
}

Json operation_of(const Route& route, const std::string& path) {
  const auto body = body_of_endpoint(route.method, route.path);
  Json out = {{"operationId", operation_id(route.method, path)}, {"summary", route.what}};
  Json parameters = Json::array();
  if (route.path.find("{}") != route.path.npos) {
    const Parameter& parameter = parameter_of(route.path);
    parameters.push_back({{"name", parameter.name}, {"in", "path"}, {"required", true}, {"description", parameter.what}, {"schema", {{"type", "string"}}}});
  }
  if (route.method == "GET" && route.path == "/cache/explain")
    parameters.push_back({{"name", "request_id"}, {"in", "query"}, {"required", true}, {"description", "X-Request-Id of a request that lives or ended lately"}, {"schema", {{"type", "string"}}}});
  if (!parameters.empty()) out["parameters"] = std::move(parameters);
  if (body) out["requestBody"] = {{"required", true}, {"content", json_content(reference("schemas/" + schema_name(path)))}};
  else if (route.method == "POST") out["requestBody"] = {{"required", true}, {"content", json_content({{"type", "object"}})}};
  out["responses"] = responses_of(route, body);
  // Not even "no key" is asked for, where the server says {} too: clients send theirs everywhere, and it does no harm.
  if (route.open) out["security"] = Json::array();
  return out;
}

Json error_schema(Dialect dialect) {
  const Json text = {{"type", "string"}}, text_or_null = {{"type", {"string", "null"}}};
  if (dialect == Dialect::anthropic)
    return {{"type", "object"},
            {"required", {"type", "error"}},
            {"properties", {{"type", {{"const", "error"}}}, {"error", {{"type", "object"}, {"required", {"type", "message"}}, {"properties", {{"type", text}, {"message", text}}}}}}}};
  return {{"type", "object"},
          {"required", Json::array({"error"})},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", {"message", "type", "param", "code"}},
              {"properties", {{"message", text}, {"type", text}, {"param", text_or_null}, {"code", text_or_null}}}}}}}};
}

Json components_of(std::span<const Route> routes) {
  Json schemas = {{"OpenAIError", error_schema(Dialect::openai)}, {"AnthropicError", error_schema(Dialect::anthropic)}};
  for (const Route& route : routes)
    if (const auto body = body_of_endpoint(route.method, route.path)) schemas[schema_name(named_path(route.path))] = body_schema(*body);
  const auto response = [&](const char* name) {
    const Json retry = {{"description", "whole seconds, where coming again helps"}, {"schema", {{"type", "integer"}}}};
    return Json{{"description", "one sentence, the path of the field, the numbers"}, {"headers", {{"Retry-After", retry}}}, {"content", json_content(reference(std::string("schemas/") + name))}};
  };
  return {{"schemas", std::move(schemas)},
          {"responses", {{"OpenAIError", response("OpenAIError")}, {"AnthropicError", response("AnthropicError")}}},
          {"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}, {"x_api_key", {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}}}}};
}

}  // namespace

Json openapi_document(std::span<const Route> routes, const std::string& version) {
  Json paths = Json::object();
  for (const Route& route : routes) {
    const std::string path = named_path(route.path);
    paths[path][ascii_lower(route.method)] = operation_of(route, path);
  }
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "Millrace"}, {"version", version}, {"summary", "an LLM inference server that speaks OpenAI's and Anthropic's APIs"}}},
          {"paths", std::move(paths)},
          // With --api-keys one of these is needed; without, none is looked at.
          {"security", {{{"bearer", Json::array()}}, {{"x_api_key", Json::array()}}}},
          {"components", components_of(routes)}};
}

}  // namespace millrace::server
