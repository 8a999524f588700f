#pragma once

// One thread with its event loop, and the connections that live on it: nothing of theirs is touched by another thread, so
// nothing of theirs is locked.

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "server/net/mailbox.h"
#include "server/net/net_state.h"

namespace millrace::server::net {

class IoThread {
 public:
  explicit IoThread(NetState& state);
  IoThread(const IoThread&) = delete;
  ~IoThread();  // as end()

  // Any thread.
  void start();
  /// Takes a descriptor that admit() let in.
  void adopt(int fd, std::string peer, bool tls, NetState::Admission admission);
  /// Idle connections close, busy ones after their answer; new ones at once.
  void stop_accepting();
  /// Everything closes; joins the thread. What exchanges say later is not heard.
  void end();
  boost::asio::io_context& context() { return context_; }

  // Of connections, on this thread.
  NetState& state() { return state_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  std::span<char> buffer() { return buffer_; }  // for one read at a time
  std::string_view date();
  bool stopping() const { return stopping_; }
  void remove(const std::shared_ptr<Connection>& connection);

 private:
  void open(int fd, std::string peer, bool tls, NetState::Admission admission);
  void deliver();

  NetState& state_;
  boost::asio::io_context context_{1};  // 1: one thread runs it
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::shared_ptr<Mailbox> mailbox_;
  std::thread thread_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  bool stopping_ = false;
  std::time_t date_second_ = 0;
  std::string date_;
  std::array<char, 64 << 10> buffer_;
};

}  // namespace millrace::server::net
