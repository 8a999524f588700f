#include "server/net/io_thread.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include <ctime>
#include <vector>

#include "server/net/connection.h"
#include "server/net/response_text.h"

namespace millrace::server::net {
namespace {

namespace asio = boost::asio;

/// What every thread of the network does first.
void begin_io_thread() {
  ::pthread_setname_np(::pthread_self(), "millrace-io");
  sigset_t all;  // signals are for the threads that wait for them
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

IoThread::IoThread(NetState& state)
    : state_(state), work_(asio::make_work_guard(context_)), mailbox_(std::make_shared<Mailbox>([this] {
        asio::post(context_, [this] { deliver(); });
      })) {}

IoThread::~IoThread() { end(); }

void IoThread::start() {
  thread_ = std::thread([this] {
    begin_io_thread();
    context_.run();
  });
}

void IoThread::adopt(int fd, std::string peer, bool tls, NetState::Admission admission) {
  asio::post(context_, [this, fd, peer = std::move(peer), tls, admission]() mutable { open(fd, std::move(peer), tls, admission); });
}

void IoThread::open(int fd, std::string peer, bool tls, NetState::Admission admission) {
  auto connection = stopping_ ? nullptr : Connection::open(*this, fd, std::move(peer), admission, tls ? state_.tls() : nullptr);
  if (!connection) {
    ::close(fd);
    state_.connection_closed(admission);
    return;
  }
  connections_.insert(connection);
  connection->start();
}

void IoThread::remove(const std::shared_ptr<Connection>& connection) {
  if (connections_.erase(connection) == 1) state_.connection_closed(connection->admission());
}

void IoThread::stop_accepting() {
  asio::post(context_, [this] {
    stopping_ = true;
    const std::vector<std::shared_ptr<Connection>> now(connections_.begin(), connections_.end());
    for (const auto& connection : now) connection->stop();
  });
}

void IoThread::end() {
  if (thread_.joinable()) {
    asio::post(context_, [this] {
      stopping_ = true;
      const std::vector<std::shared_ptr<Connection>> now(connections_.begin(), connections_.end());
      for (const auto& connection : now) connection->close();
      work_.reset();
    });
    thread_.join();
  }
  mailbox_->close();
}

std::string_view IoThread::date() {
  if (const std::time_t now = std::time(nullptr); now != date_second_) {
    date_second_ = now;
    date_ = http_date(now);
  }
  return date_;
}

/// All calls first, then one write for each connection that has something to say.
void IoThread::deliver() {
  std::vector<std::shared_ptr<Connection>> called;
  for (Letter& letter : mailbox_->take()) {
    if (Connection* connection = letter.answer->connection) {
      if (connection->mark_called()) called.push_back(connection->shared_from_this());
      connection->apply(std::move(letter.call));
    } else if (auto* post = std::get_if<PostCall>(&letter.call)) {
      post->task();
    } else if (auto* late = std::get_if<OnGoneCall>(&letter.call); late && letter.answer->gone) {
      late->gone();
    }
  }
  for (const auto& connection : called) connection->after_calls();
}

}  // namespace millrace::server::net
