#include "server/net/http_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>

#include "base/check.h"
#include "base/log.h"
#include "server/net/acceptor.h"
#include "server/net/io_thread.h"

namespace millrace::server {
namespace net {
namespace {

// For everything that is no connection: model files, logs, the event loops.
constexpr std::size_t kOtherFiles = 128;

/// Raises the soft limit of open files to the hard one; how many connections that leaves room for.
std::size_t make_room_for_connections(std::size_t wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  if (files.rlim_cur < files.rlim_max) {
    const rlimit raised{files.rlim_max, files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) files.rlim_cur = files.rlim_max;
  }
  if (files.rlim_cur == RLIM_INFINITY || files.rlim_cur > wanted + kOtherFiles) return wanted;
  const std::size_t room = files.rlim_cur > 2 * kOtherFiles ? files.rlim_cur - kOtherFiles : kOtherFiles;
  log_warn("fewer connections than asked for: the limit of open files", {{"connections", room}, {"files", files.rlim_cur}});
  return room;
}

class Server final : public HttpServer {
 public:
  Server(HttpServerOptions options, std::vector<ListenSocket> sockets, std::shared_ptr<const TlsContext> tls)
      : state_(std::move(options)), sockets_(std::move(sockets)) {
    state_.set_tls(std::move(tls));
    for (const ListenSocket& socket : sockets_) addresses_.push_back(socket.address());
    for (int i = 0; i < state_.options.io_threads; ++i) io_.push_back(std::make_unique<IoThread>(state_));
  }

  ~Server() override {
    stop_accepting();
    for (const auto& io : io_) io->end();
  }

  void start(Handler handler) override {
    MILLRACE_CHECK(!state_.handler && handler, "a server is started once, with a handler");
    state_.handler = std::move(handler);
    for (ListenSocket& socket : sockets_)
      acceptors_.push_back(std::make_shared<Acceptor>(
          io_[0]->context(), std::move(socket), [this](int fd, std::string peer, bool tls) { deal(fd, std::move(peer), tls); }));
    sockets_.clear();
    boost::asio::post(io_[0]->context(), [this] {
      for (const auto& acceptor : acceptors_) acceptor->start();
    });
    for (const auto& io : io_) io->start();
  }

  std::vector<std::string> addresses() const override { return addresses_; }

  void stop_accepting() override {
    if (!state_.handler) return sockets_.clear();  // not started: nobody else has them
    if (stopped_.exchange(true)) return;
    const auto closed = std::make_shared<std::promise<void>>();
    boost::asio::post(io_[0]->context(), [this, closed] {
      for (const auto& acceptor : acceptors_) acceptor->close();
      closed->set_value();
      // Behind the connections that were accepted before.
      for (const auto& io : io_) io->stop_accepting();
    });
    closed->get_future().wait_for(std::chrono::seconds(1));
  }

  bool wait_until_idle(std::chrono::milliseconds timeout) override { return state_.wait_until_idle(timeout); }

  Result<void> reload_tls() override {
    if (std::ranges::none_of(state_.options.at, &ListenAt::tls)) return {};
    MILLRACE_TRY(tls, TlsContext::load(state_.options.tls));
    state_.set_tls(std::move(tls));
    return {};
  }

  const HttpServerMetrics& metrics() const override { return state_.metrics; }

 private:
  /// On the first thread.
  void deal(int fd, std::string peer, bool tls) {
    const auto admission = state_.admit();
    if (admission == NetState::Admission::dropped) {
      state_.metrics.refused_connections_total.add();
      ::close(fd);
      return;
    }
    io_[next_++ % io_.size()]->adopt(fd, std::move(peer), tls, admission);
  }

  NetState state_;
  std::vector<ListenSocket> sockets_;  // until start()
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<IoThread>> io_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;  // of the first thread
  std::size_t next_ = 0;
  std::atomic<bool> stopped_{false};
};

}  // namespace
}  // namespace net

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerOptions options) {
  if (options.at.empty()) return error(Code::invalid_argument, "no address to listen on");
  if (options.io_threads < 1 || options.io_threads > 64)
    return error(Code::invalid_argument, "the network has 1 to 64 threads, not {}", options.io_threads);
  std::shared_ptr<const net::TlsContext> tls;
  if (std::ranges::any_of(options.at, &ListenAt::tls)) {
    MILLRACE_TRY(loaded, net::TlsContext::load(options.tls));
    tls = std::move(loaded);
  }
  std::vector<net::ListenSocket> sockets;
  for (const ListenAt& at : options.at) {
    MILLRACE_TRY(listening, net::listen_at(at));
    for (net::ListenSocket& one : listening) sockets.push_back(std::move(one));
  }
  options.limits.max_connections = net::make_room_for_connections(options.limits.max_connections);
  return std::unique_ptr<HttpServer>(std::make_unique<net::Server>(std::move(options), std::move(sockets), std::move(tls)));
}

}  // namespace millrace::server
