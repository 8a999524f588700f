#include "server/routes.h"

#include <array>

#include "server/endpoints.h"

namespace millrace::server {
namespace {

constexpr auto kAnthropic = Dialect::anthropic;

constexpr auto kRoutes = std::to_array<Route>({
    {.method = "POST", .path = "/v1/chat/completions", .endpoint = chat_completions, .on_pool = true, .counted = true, .what = "a chat: messages in, an answer out"},
    {.method = "POST", .path = "/v1/completions", .endpoint = completions, .on_pool = true, .counted = true, .what = "a raw prompt continued"},
    {.method = "POST", .path = "/v1/responses", .endpoint = responses, .on_pool = true, .counted = true, .what = "a chat in OpenAI's Responses API"},
    {.method = "GET", .path = "/v1/responses/{}", .endpoint = get_response, .needs_model = false, .what = "a stored response"},
    {.method = "DELETE", .path = "/v1/responses/{}", .endpoint = delete_response, .needs_model = false, .what = "forget it"},
    {.method = "GET", .path = "/v1/responses/{}/input_items", .endpoint = response_input_items, .needs_model = false, .what = "what it answered"},
    {.method = "POST", .path = "/v1/messages", .endpoint = messages, .dialect = kAnthropic, .on_pool = true, .counted = true, .what = "a chat in Anthropic's API"},
    {.method = "POST", .path = "/v1/messages/count_tokens", .endpoint = count_tokens, .dialect = kAnthropic, .on_pool = true, .counted = true, .what = "tokens of its prompt"},
    {.method = "POST", .path = "/v1/embeddings", .endpoint = embeddings, .on_pool = true, .counted = true, .what = "a vector for each text"},
    {.method = "GET", .path = "/v1/models", .endpoint = list_models, .what = "the model that is served"},
    {.method = "GET", .path = "/v1/models/{}", .endpoint = get_model, .what = "one of its names"},
    {.method = "GET", .path = "/v1/capabilities", .endpoint = capabilities, .what = "endpoints, fields, limits, the model"},
    {.method = "POST", .path = "/tokenize", .endpoint = tokenize, .on_pool = true, .counted = true, .what = "text or messages to ids"},
    {.method = "POST", .path = "/detokenize", .endpoint = detokenize, .on_pool = true, .counted = true, .what = "ids to text"},
    {.method = "POST", .path = "/apply-template", .endpoint = apply_template, .on_pool = true, .counted = true, .what = "messages to the prompt's text"},
    {.method = "GET", .path = "/health", .endpoint = health, .open = true, .needs_model = false, .what = "200 once the model is there"},
    {.method = "GET", .path = "/ready", .endpoint = readiness, .open = true, .needs_model = false, .what = "200 while requests are served in time"},
    {.method = "GET", .path = "/metrics", .endpoint = metrics, .open = true, .needs_model = false, .what = "for Prometheus"},
    {.method = "GET", .path = "/cache/explain", .endpoint = explain_request, .what = "why a request's prompt tokens were computed"},
    {.method = "POST", .path = "/cache/explain", .endpoint = explain_prompt, .on_pool = true, .counted = true, .what = "what the cache has of a prompt"},
    {.method = "GET", .path = "/debug/requests", .endpoint = debug_requests, .needs_model = false, .what = "the live requests"},
    {.method = "GET", .path = "/openapi.json", .endpoint = openapi, .open = true, .needs_model = false, .what = "this API, for machines"},
});

/// Whether `path` is what `pattern` says; `parts` gets what stood for each "{}".
bool fits(std::string_view pattern, std::string_view path, std::vector<std::string>& parts) {
  parts.clear();
  while (!pattern.empty() && !path.empty()) {
    pattern.remove_prefix(1), path.remove_prefix(1);  // the slashes
    const std::string_view want = pattern.substr(0, pattern.find('/')), got = path.substr(0, path.find('/'));
    if (want == "{}" && !got.empty()) parts.emplace_back(got);
    else if (want != got) return false;
    pattern.remove_prefix(want.size()), path.remove_prefix(got.size());
  }
  return pattern.empty() && path.empty();
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Match match(std::string_view method, std::string_view path) {
  Match found;
  if (!path.starts_with('/')) return found;
  for (const Route& route : kRoutes) {
    std::vector<std::string> parts;
    if (!fits(route.path, path, parts)) continue;
    if (route.method == method || (route.method == "GET" && method == "HEAD")) return {&route, std::move(parts), ""};
    found.allowed += (found.allowed.empty() ? "" : ", ") + std::string(route.method) + (route.method == "GET" ? ", HEAD" : "");
  }
  return found;
}

}  // namespace millrace::server
