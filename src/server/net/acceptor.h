#pragma once

// Accepts the connections of one listening socket and hands them on. When the process has no descriptor left it waits, and
// does not spin.

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>

#include "server/net/listen_socket.h"

namespace millrace::server::net {

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  using Accepted = std::function<void(int fd, std::string peer, bool tls)>;  // takes fd

  Acceptor(boost::asio::io_context& context, ListenSocket socket, Accepted accepted);

  // On the context's thread.
  void start();
  void close();

 private:
  void wait();
  void accept();

  ListenSocket socket_;  // its file; the descriptor is descriptor_'s
  bool tls_;
  Accepted accepted_;
  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::steady_timer pause_;
};

}  // namespace millrace::server::net
