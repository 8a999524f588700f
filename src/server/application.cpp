#include "server/application.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "base/ascii.h"
#include "server/api_error.h"
#include "server/metrics_page.h"
#include "server/read_call.h"
#include "server/recorded_exchange.h"
#include "server/routes.h"

namespace millrace::server {
namespace {

// Bodies of three sizes queue apart, each for its own thread, so that a question never waits for a flood of books: to read and tokenize
// 16 KiB takes some milliseconds, 256 KiB some tens.
constexpr std::size_t kSmallBody = 16 << 10, kLargeBody = 256 << 10;

/// Bodies are JSON. What names no type is taken for it, and so is curl's own default for -d.
bool may_be_json(const HttpRequest& request) {
  const std::string* given = request.header("content-type");
  if (!given) return true;
  const std::string type = ascii_lower(*given);  // the case of its letters means nothing
  return type.empty() || type.find("json") != std::string::npos || type.starts_with("application/x-www-form-urlencoded");
}

ApiError not_ready(const ServerState& state) {
  ApiError error{.status = 503, .retry_after_us = 1'000'000};
  if (state.phase() == Phase::loading) error.message = fmt::format("the model is loading, {} % are done", state.percent()), error.code = "loading";
  else error.message = "the server is stopping and takes no new requests", error.code = "stopping";
  return error;
}

/// What a browser asks before it sends a request to another origin. It carries no key.
HttpResponse preflight_response(const HttpRequest& request) {
  HttpResponse response{.status = 204, .content_type = "", .headers = {}, .body = ""};
  const std::string* wanted = request.header("access-control-request-headers");
  response.headers = {{"access-control-allow-methods", "GET, HEAD, POST, DELETE, OPTIONS"},
                      {"access-control-allow-headers", wanted && !wanted->empty() ? *wanted : "authorization, content-type, x-api-key, x-request-id"},
                      {"access-control-max-age", "86400"}};
  return response;
}

/// Headers of ours that a page of another origin may read.
constexpr const char* kExposed =
    "x-request-id, retry-after, x-millrace-unknown-fields, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

std::vector<Header> cors_headers(const std::string& origin) {
  if (origin.empty()) return {};
  std::vector<Header> headers = {{"access-control-allow-origin", origin}, {"access-control-expose-headers", kExposed}};
  if (origin != "*") headers.push_back({"vary", "origin"});
  return headers;
}

Dialect dialect_of(const HttpRequest& request, const Route* route) {
  if (route) return route->dialect;
  return request.header("anthropic-version") ? Dialect::anthropic : Dialect::openai;
}

}  // namespace

Result<std::unique_ptr<Application>> Application::open(ServerConfig config) {
  MILLRACE_TRY_VOID(check_metrics_prefix(config.metrics_prefix));
  MILLRACE_TRY(keys, ApiKeys::open(config.api_keys_file, config.api_keys));
  HttpServerOptions options;
  options.at = config.at;
  options.tls = config.tls;
  options.limits = config.limits;
  options.io_threads = config.io_threads;
  options.refusal = [](int status, const std::string& message) { return error_response({.status = status, .message = message}, Dialect::openai); };
  HttpServerOptions aside = options;
  std::unique_ptr<Application> application(new Application(std::move(config), std::move(keys)));
  options.on_head = [it = application.get()](const HttpRequest& head) { return it->veto(head); };
  MILLRACE_TRY(http, HttpServer::listen(std::move(options)));
  application->http_ = std::move(http);
  if (const auto& at = application->config_.metrics_at) {
    aside.at = {*at};
    aside.io_threads = 1;
    MILLRACE_TRY(metrics_http, HttpServer::listen(std::move(aside)));
    application->metrics_http_ = std::move(metrics_http);
  }
  return application;
}

Application::Application(ServerConfig config, std::unique_ptr<ApiKeys> keys)
    : config_(std::move(config)),
      keys_(std::move(keys)),
      records_(metrics_, {.log_prompts = config_.log_prompts, .rate_limits = &rate_limits_}),
      responses_({.responses = config_.max_stored_responses, .bytes = config_.max_stored_bytes}),
      small_pool_(config_.pool_threads),
      pool_(1),
      large_pool_(1) {}

Application::~Application() { stop_work(); }

void Application::start() {
  http_->start([this](ExchangePtr exchange) { handle(std::move(exchange), Port::all); });
  if (metrics_http_) metrics_http_->start([this](ExchangePtr exchange) { handle(std::move(exchange), Port::metrics); });
}

std::vector<std::string> Application::addresses() const {
  std::vector<std::string> all = http_->addresses();
  if (metrics_http_)
    for (const std::string& address : metrics_http_->addresses()) all.push_back(address + "/metrics");
  return all;
}

void Application::loading(double share) { state_.loading(share); }

void Application::ready(std::shared_ptr<const ServedModel> model) {
  {
    const std::lock_guard lock(model_mutex_);
    model_ = std::move(model);
  }
  metrics_.model_load_us.set(now_us() - opened_us_);
  state_.ready();
}

std::shared_ptr<const ServedModel> Application::model() const {
  const std::lock_guard lock(model_mutex_);
  return model_;
}

Result<void> Application::reload() {
  MILLRACE_TRY_VOID(http_->reload_tls());
  return keys_->reload();
}

void Application::drain() {
  state_.drain();
  http_->stop_accepting();
}

bool Application::wait_until_sent(std::chrono::milliseconds timeout) { return http_->wait_until_idle(timeout); }

void Application::stop_work() {
  small_pool_.stop();
  pool_.stop();
  large_pool_.stop();
  const std::lock_guard lock(model_mutex_);
  model_ = nullptr;
}

/// With --metrics-port, /metrics is there only, beside the probes.
bool Application::serves(const Route& route, Port port) const {
  if (port == Port::metrics) return route.path == "/metrics" || route.path == "/health" || route.path == "/ready";
  return !config_.metrics_at || route.path != "/metrics";
}

/// What the head of a request decides: who asks, what for, and whether it can be had now.
struct Application::Admission {
  Match found;
  std::shared_ptr<const Tenant> tenant;  // nullptr: not known
  Dialect dialect = Dialect::openai;
  std::shared_ptr<const ServedModel> model;

  struct Refusal {
    ApiError error;
    std::string_view reason;      // of refused_requests_total
    std::vector<Header> headers;
  };
  std::optional<Refusal> refusal;
};

/// In this order, so that each refusal is the first thing that is wrong: path, method, key, type, model.
Application::Admission Application::admit(const HttpRequest& request, Port port) const {
  Admission admission;
  admission.found = match(request.method, request.path);
  if (admission.found.route && !serves(*admission.found.route, port)) admission.found = {};
  const Route* route = admission.found.route;
  admission.dialect = dialect_of(request, route);
  admission.tenant = !route || route->open ? std::make_shared<const Tenant>() : keys_->find(presented_key(request));
  admission.model = model();

  const std::string& allowed = admission.found.allowed;
  if (!route && allowed.empty()) {
    admission.refusal = {{.status = 404, .message = fmt::format("there is no {} here", request.path), .code = "not_found"}, "not_found", {}};
  } else if (!route) {
    admission.refusal = {{.status = 405, .message = fmt::format("{} takes {}, not {}", request.path, allowed, request.method)}, "method", {{"allow", allowed}}};
  } else if (!admission.tenant) {
    const std::string message = presented_key(request) ? "the API key is not known" : "an API key is needed: Authorization: Bearer KEY";
    admission.refusal = {{.status = 401, .message = message, .code = "invalid_api_key"}, "unauthorized", {{"www-authenticate", "Bearer"}}};
  } else if (route->method == "POST" && !may_be_json(request)) {
    admission.refusal = {{.status = 415, .message = fmt::format("content-type is '{}', expected application/json", *request.header("content-type"))}, "invalid", {}};
  } else if (const std::string* coding = request.header("content-encoding"); coding && *coding != "identity") {
    admission.refusal = {{.status = 415, .message = fmt::format("content-encoding is '{}', bodies are taken as they are", *coding)}, "invalid", {}};
  } else if (route->needs_model && (!admission.model || state_.phase() != Phase::ready)) {
    admission.refusal = {not_ready(state_), "unavailable", {}};
  }
  return admission;
}

/// A refusal that need not wait for the body. Whoever passes is admitted again with it: nothing is kept between the two.
std::optional<HttpResponse> Application::veto(const HttpRequest& head) {
  const Admission admission = admit(head, Port::all);
  if (!admission.refusal) return std::nullopt;
  return refused(head, admission);
}

HttpResponse Application::refused(const HttpRequest& request, const Admission& admission) {
  const auto& [error, reason, more] = *admission.refusal;
  const auto record = records_.begin(request, admission.found.route ? admission.found.route->path : "other", admission.tenant ? *admission.tenant : Tenant{.name = ""});
  record->refused(error.status, std::string(reason));
  ApiError told = error;
  told.request_id = record->id();
  HttpResponse response = error_response(told, admission.dialect);
  std::ranges::copy(more, std::back_inserter(response.headers));
  std::ranges::move(common_headers(record->id(), admission.dialect), std::back_inserter(response.headers));
  record->sent(error.status);
  return response;
}

/// What belongs on every answer to a request of that id.
std::vector<Header> Application::common_headers(const std::string& id, Dialect dialect) const {
  std::vector<Header> headers = cors_headers(config_.cors_origin);
  headers.push_back({"x-request-id", id});
  if (dialect == Dialect::anthropic) headers.push_back({"request-id", id});  // as its clients look for it
  return headers;
}

/// On the connection's thread.
void Application::handle(ExchangePtr exchange, Port port) {
  const HttpRequest& request = exchange->request();
  if (request.method == "OPTIONS" && !config_.cors_origin.empty()) {
    HttpResponse response = preflight_response(request);
    std::ranges::move(cors_headers(config_.cors_origin), std::back_inserter(response.headers));
    return exchange->respond(std::move(response));
  }
  Admission admission = admit(request, port);
  if (admission.refusal) return exchange->respond(refused(request, admission));

  const Route& route = *admission.found.route;
  auto record = records_.begin(request, route.path, *admission.tenant);
  std::vector<Header> headers = common_headers(record->id(), admission.dialect);
  std::optional<ApiError> limited;
  if (route.counted) {
    RateLimits::Decision decision = rate_limits_.request(*admission.tenant, now_us());
    std::ranges::move(decision.headers, std::back_inserter(headers));
    limited = std::move(decision.refusal);
  }
  Call call{std::make_shared<RecordedExchange>(std::move(exchange), record, std::move(headers)), record, std::move(admission.model), this, std::move(admission.found.parts), route.dialect};
  if (limited) return refuse(call, *limited, "rate_limit");
  if (!route.on_pool) return route.endpoint(std::move(call));
  const std::size_t bytes = call.exchange->request().body.size();
  WorkPool& pool = bytes <= kSmallBody ? small_pool_ : bytes <= kLargeBody ? pool_ : large_pool_;
  auto gone = std::make_shared<std::atomic<bool>>(false);
  call.exchange->on_gone([gone] { *gone = true; });  // who starts an answer replaces it
  const int tenant = record->tenant().id;
  pool.post(tenant, [endpoint = route.endpoint, call = std::move(call)]() mutable { endpoint(std::move(call)); }, [gone] { return gone->load(); });
}

}  // namespace millrace::server
