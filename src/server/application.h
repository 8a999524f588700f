#pragma once

// The server as a whole: listens, knows who may ask, and leads each request to its endpoint (routes.h). It is up before the
// model is, and down after it.

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/api_keys.h"
#include "server/call.h"
#include "server/net/http_server.h"
#include "server/net/work_pool.h"
#include "server/rate_limit.h"
#include "server/request_records.h"
#include "server/response_store.h"
#include "server/server_config.h"
#include "server/server_metrics.h"
#include "server/health.h"

namespace millrace::server {

struct Route;

class Application {
 public:
  /// Reads the keys and listens; accepts nothing before start(). Errors: those of ApiKeys and HttpServer::listen.
  static Result<std::unique_ptr<Application>> open(ServerConfig config);
  ~Application();

  void start();
  std::vector<std::string> addresses() const;

  /// Any thread: how far loading is, then the model. Its engine must outlive stop_work().
  void loading(double share);
  void ready(std::shared_ptr<const ServedModel> model);

  /// Reads the keys and the certificate again. A file that is wrong changes nothing. Errors: what was wrong.
  Result<void> reload();

  /// No new connections, no new requests; /ready says so. Answers under way go on.
  void drain();

  /// Requests that have come and are not with the engine yet.
  int planning() const { return small_pool_.pending() + pool_.pending() + large_pool_.pending(); }

  /// After drain: waits until all answers are with their clients, at most `timeout`; false when some are not.
  bool wait_until_sent(std::chrono::milliseconds timeout);

  /// Nothing asks the engine any more when this returns.
  void stop_work();

  // What endpoints use. Any thread.
  const ServerConfig& config() const { return config_; }
  ServerState& state() { return state_; }
  std::shared_ptr<const ServedModel> model() const;
  RequestRecords& records() { return records_; }
  RateLimits& rate_limits() { return rate_limits_; }
  ResponseStore& responses() { return responses_; }
  ServerMetrics& metrics() { return metrics_; }
  const HttpServer& http() const { return *http_; }

 private:
  enum class Port { all, metrics };

  Application(ServerConfig config, std::unique_ptr<ApiKeys> keys);
  struct Admission;
  bool serves(const Route& route, Port port) const;
  Admission admit(const HttpRequest& request, Port port) const;
  std::optional<HttpResponse> veto(const HttpRequest& head);
  HttpResponse refused(const HttpRequest& request, const Admission& admission);
  std::vector<Header> common_headers(const std::string& id, Dialect dialect) const;
  void handle(ExchangePtr exchange, Port port);

  const ServerConfig config_;
  const Microseconds opened_us_ = now_us();
  ServerMetrics metrics_;
  std::unique_ptr<ApiKeys> keys_;
  RateLimits rate_limits_;
  RequestRecords records_;
  ResponseStore responses_;
  ServerState state_;
  mutable std::mutex model_mutex_;
  std::shared_ptr<const ServedModel> model_;
  WorkPool small_pool_, pool_, large_pool_;         // stopped before anything goes: their tasks use all of this
  std::unique_ptr<HttpServer> http_, metrics_http_;  // go first: their threads post to the pools
};

}  // namespace millrace::server
