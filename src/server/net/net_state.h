#pragma once

// What all threads of one server share: options, handler, metrics, and how many connections there are.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

#include "server/net/body_share.h"
#include "server/net/http_server.h"
#include "server/net/tls.h"

namespace millrace::server::net {

class NetState {
 public:
  explicit NetState(HttpServerOptions options) : options(std::move(options)) {}

  HttpServerOptions options;
  Handler handler;  // set before the first connection
  HttpServerMetrics metrics;
  const std::shared_ptr<BodyBytes> body_bytes = std::make_shared<BodyBytes>(0);  // of all clients; exchanges may outlive us

  enum class Admission { served, refused, dropped };

  /// Counts a new connection, unless it is to be dropped. Some above the limit are taken, to be told so; they do not keep
  /// others from being served.
  Admission admit() {
    const std::lock_guard lock(mutex_);
    if (served_ < options.limits.max_connections) {
      metrics.connections.set(static_cast<std::int64_t>(++served_));
      return Admission::served;
    }
    if (refused_ >= kRefusedAtOnce) return Admission::dropped;
    ++refused_;
    return Admission::refused;
  }
  void connection_closed(Admission admission) {
    const std::lock_guard lock(mutex_);
    if (admission == Admission::served)
      metrics.connections.set(static_cast<std::int64_t>(--served_));
    else
      --refused_;
    if (served_ + refused_ == 0) idle_.notify_all();
  }
  bool wait_until_idle(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return idle_.wait_for(lock, timeout, [&] { return served_ + refused_ == 0; });
  }

  std::shared_ptr<const TlsContext> tls() const {
    const std::lock_guard lock(mutex_);
    return tls_;
  }
  void set_tls(std::shared_ptr<const TlsContext> tls) {
    const std::lock_guard lock(mutex_);
    tls_ = std::move(tls);
  }

  HttpResponse refusal(int status, const std::string& message) const {
    if (options.refusal) return options.refusal(status, message);
    return {.status = status, .content_type = "text/plain; charset=utf-8", .body = message + "\n"};
  }

 private:
  static constexpr std::size_t kRefusedAtOnce = 64;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::size_t served_ = 0, refused_ = 0;
  std::shared_ptr<const TlsContext> tls_;
};

}  // namespace millrace::server::net
