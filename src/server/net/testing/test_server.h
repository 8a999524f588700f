#pragma once

// A server on loopback for tests: answers small paths of its own, and keeps the exchanges that a test answers itself.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "server/net/http_server.h"

namespace millrace::server::testing {

/// Times that are short for a test and long for a loaded machine.
inline ConnectionLimits quick_limits() {
  ConnectionLimits limits;
  limits.header_timeout = limits.body_timeout = limits.write_timeout = std::chrono::milliseconds(400);
  return limits;
}

/// Counts what happens on other threads; a wait for it is bounded.
class Signal {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  bool reaches(int n, std::chrono::milliseconds timeout = std::chrono::milliseconds(5000)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return count_ >= n; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// "/echo" answers "METHOD path body", "/wait" is kept for take(), anything else is 404.
class TestServer {
 public:
  explicit TestServer(HttpServerOptions options) {
    if (options.at.empty()) options.at.push_back({});
    auto listening = HttpServer::listen(std::move(options));
    MILLRACE_CHECK(listening.ok(), listening.ok() ? "" : listening.error().message);
    server_ = std::move(*listening);
    server_->start([this](ExchangePtr exchange) { serve(std::move(exchange)); });
  }
  explicit TestServer(ConnectionLimits limits = {}) : TestServer(HttpServerOptions{.limits = limits}) {}
  ~TestServer() { end(); }

  std::string address(std::size_t i = 0) const { return server_->addresses()[i]; }
  HttpServer& server() { return *server_; }
  const HttpServerMetrics& metrics() const { return server_->metrics(); }

  /// The next exchange of "/wait", in order of arrival; nullptr when none comes in time.
  ExchangePtr take(std::chrono::milliseconds timeout = std::chrono::milliseconds(5000)) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return !waiting_.empty(); })) return nullptr;
    ExchangePtr first = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return first;
  }
  int requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  void end() { server_.reset(); }

 private:
  void serve(ExchangePtr exchange) {
    const HttpRequest& request = exchange->request();
    const std::lock_guard lock(mutex_);
    ++requests_;
    if (request.path == "/wait") {
      waiting_.push_back(std::move(exchange));
      changed_.notify_all();
    } else if (request.path == "/echo") {
      exchange->respond({.content_type = "text/plain", .body = request.method + " " + request.path + " " + request.body});
    } else {
      exchange->respond({.status = 404, .content_type = "text/plain", .body = "no " + request.path});
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExchangePtr> waiting_;
  int requests_ = 0;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace millrace::server::testing
