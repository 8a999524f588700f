#include "server/net/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace millrace::server::net {
namespace {

// What the kernel takes of an answer that is not read; it doubles the number. By itself it takes megabytes, which is the
// whole of most streams: a client that does not read would never be noticed (O8.7).
constexpr int kKernelSendBytes = 128 << 10;

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

Connection::Connection(IoThread& io, std::string peer, NetState::Admission admission)
    : io_(io), descriptor_(io.context()), timer_(io.context()), peer_(std::move(peer)), admission_(admission) {}

std::shared_ptr<Connection> Connection::open(IoThread& io, int fd, std::string peer, NetState::Admission admission,
                                             const std::shared_ptr<const TlsContext>& tls) {
  std::shared_ptr<Connection> connection(new Connection(io, std::move(peer), admission));
  connection->stream_ = tls ? tls->make_stream(fd) : make_plain_stream(fd);
  if (!connection->stream_) return nullptr;
  boost::system::error_code problem;
  connection->descriptor_.assign(fd, problem);
  if (problem) return nullptr;
  // The first two fail on a UNIX socket, which needs neither. Keep-alive: a client whose machine is gone is silent for ever.
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, SOL_SOCKET, SO_SNDBUF, kKernelSendBytes);
  return connection;
}

/// More of a request is to come: a client that sends head and body apart, with Nagle's algorithm on, sends the body when
/// the head was acknowledged, and the kernel would think about that for 40 ms.
void Connection::acknowledge_at_once() { set_option(descriptor_.native_handle(), IPPROTO_TCP, TCP_QUICKACK, 1); }

void Connection::start() {
  if (admission_ != NetState::Admission::served) return refuse_for_want_of_room();
  metrics().connections_total.add();
  set_deadline_in(limits().header_timeout);
  on_readable();
}

void Connection::refuse_for_want_of_room() {
  metrics().refused_connections_total.add();
  if (stream_->handshake() != Io::done) return close();  // TLS: more work than somebody is worth who is not served
  refuse_rest(io_.state().refusal(503, fmt::format("the server has its {} connections", limits().max_connections)));
}

void Connection::stop() {
  if (phase_ == Phase::idle) finish();
  if (phase_ == Phase::handshake || phase_ == Phase::lingering) close();
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  const auto self = shared_from_this();
  boost::system::error_code ignored;
  timer_.cancel();
  descriptor_.close(ignored);
  stream_.reset();
  parser_.reset();
  veto_.reset();
  out_.clear();
  std::string().swap(backlog_);
  io_.remove(self);
  if (!answer_) return;
  answer_->gone = true;
  const auto gone = std::move(answer_->on_gone);
  forget_answer();
  if (gone) gone();
}

/// A closed connection whose peer does not read would keep the kernel busy with what was not sent.
void Connection::abort() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor_.native_handle(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void Connection::forget_answer() {
  if (!answer_) return;
  const auto answer = std::exchange(answer_, nullptr);
  answer->connection = nullptr;
  answer->on_gone = nullptr;
}

/// What the kernel still has of what was written.
int Connection::unread_bytes() {
  int bytes = 0;
  return ::ioctl(descriptor_.native_handle(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

/// Deadlines move with every progress, the timer does not: it looks when it fires, and sleeps on if there is time left.
void Connection::set_deadline(Clock::time_point at) {
  deadline_ = at;
  if (deadline_ < armed_for_) arm_timer();
}

void Connection::arm_timer() {
  armed_for_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (cancelled || self->phase_ == Phase::closed) return;
    self->armed_for_ = Clock::time_point::max();
    if (self->deadline_ == Clock::time_point::max()) return;
    if (Clock::now() >= self->deadline_)
      self->on_deadline();
    else
      self->arm_timer();
  });
}

void Connection::on_deadline() {
  no_deadline();
  switch (phase_) {
    case Phase::idle: return finish();
    case Phase::head:
      metrics().timeouts_total.add();
      return refuse(408, fmt::format("the header was not there within {} ms", limits().header_timeout.count()));
    case Phase::body:
      metrics().timeouts_total.add();
      return refuse(408, Clock::now() >= body_end_
                             ? fmt::format("the body was not there within {} ms", limits().body_total_timeout.count())
                             : fmt::format("nothing more of the body came for {} ms", limits().body_timeout.count()));
    case Phase::handshake:
      metrics().timeouts_total.add();
      return close();
    case Phase::answering:
      if (!out_.empty()) {
        // The kernel asks for more only when much of what it has is read: a slow reader moves on without our noticing.
        if (const int before = std::exchange(unread_bytes_, unread_bytes()); unread_bytes_ < before)
          return set_deadline_in(limits().write_timeout);
        metrics().timeouts_total.add();
      }
      return abort();
    case Phase::lingering:
    case Phase::closed: return close();
  }
}

}  // namespace millrace::server::net
