#include "server/net/acceptor.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/log.h"
#include "server/net/resolve.h"

namespace millrace::server::net {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

Acceptor::Acceptor(boost::asio::io_context& context, ListenSocket socket, Accepted accepted)
    : socket_(std::move(socket)), tls_(socket_.tls()), accepted_(std::move(accepted)), descriptor_(context), pause_(context) {}

void Acceptor::start() {
  boost::system::error_code problem;
  descriptor_.assign(socket_.fd(), problem);
  if (problem) return log_error("cannot accept connections", {{"address", socket_.address()}, {"reason", problem.message()}});
  socket_.release();
  wait();
}

void Acceptor::close() {
  boost::system::error_code ignored;
  pause_.cancel();
  descriptor_.close(ignored);
  socket_.close();
}

void Acceptor::wait() {
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& problem) {
                           if (!problem) self->accept();
                         });
}

void Acceptor::accept() {
  for (int i = 0; i < kAcceptsPerTurn && descriptor_.is_open(); ++i) {
    SocketAddress peer;
    peer.size = sizeof peer.storage;
    const int fd = ::accept4(descriptor_.native_handle(), peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      accepted_(fd, text_of(peer), tls_);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the queue, so to wait for it would end at once, again and again.
      pause_.expires_after(kPause);
      pause_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
        if (!cancelled) self->accept();
      });
      return;
    }
    // Anything else is the end of that one connection: it was reset before it was accepted.
  }
  if (descriptor_.is_open()) wait();
}

}  // namespace millrace::server::net
