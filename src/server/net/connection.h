#pragma once

// One client: reads requests, one at a time, and writes their answers in order. Everything happens on the thread of its
// IoThread. It always waits for input, also while an answer is under way, because that is how a client that leaves is
// noticed. Knows the limits on a client; knows no path.

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "server/net/io_thread.h"
#include "server/net/mailbox.h"
#include "server/net/out_queue.h"
#include "server/net/request_parser.h"
#include "server/net/stream.h"

namespace millrace::server::net {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Takes `fd`. `tls` may be null: plain. nullptr, and `fd` is still the caller's, when the machine has no room for it.
  static std::shared_ptr<Connection> open(IoThread& io, int fd, std::string peer, NetState::Admission admission,
                                          const std::shared_ptr<const TlsContext>& tls);
  NetState::Admission admission() const { return admission_; }

  /// Serves; or says 503 and closes, if there is no room.
  void start();

  /// A call on the exchange under way; after_calls() writes what came of it. mark_called(): true the first time.
  bool mark_called() { return !std::exchange(called_, true); }
  void apply(ExchangeCall call);
  void after_calls();

  /// Closes now if nothing is under way, else after the answer.
  void stop();
  /// At once. Whoever waits for the answer is told that the client is gone.
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase {
    handshake,
    idle,       // no byte of a request yet
    head,       // of a request
    body,
    answering,  // or refusing: then there is no answer_
    lingering,  // all is said: waits until the client has read it
    closed,
  };

  Connection(IoThread& io, std::string peer, NetState::Admission admission);

  // connection_input.cpp: from bytes to a request
  void acknowledge_at_once();
  void wait_readable();
  void read_on();
  void on_readable();
  bool shake_hands();
  bool input_is_full() const;
  void on_bytes(std::string_view bytes);
  std::size_t consume(std::string_view bytes);
  void on_head(bool body_is_here);
  void on_request();
  void on_end_of_input();
  void find_out_if_anybody_is_there();
  void refuse(int status, const std::string& message);
  void refuse_rest(HttpResponse response);

  // connection_output.cpp: from answers to bytes
  void write_whole(HttpResponse response);
  void start_stream(const HttpResponse& head);
  void write_piece(std::string data);
  void end_stream();
  void wait_writable();
  void on_writable();
  void flush();
  void end_answer();
  void next_request();
  void finish();
  void abort();

  // connection.cpp: its life
  void refuse_for_want_of_room();
  void set_deadline(Clock::time_point at);
  void set_deadline_in(std::chrono::milliseconds time) { set_deadline(Clock::now() + time); }
  void no_deadline() { deadline_ = Clock::time_point::max(); }
  void arm_timer();
  void on_deadline();
  void forget_answer();
  int unread_bytes();

  const ConnectionLimits& limits() const { return io_.state().options.limits; }
  HttpServerMetrics& metrics() { return io_.state().metrics; }

  IoThread& io_;
  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max(), armed_for_ = Clock::time_point::max(), body_end_;
  std::unique_ptr<Stream> stream_;
  std::string peer_;
  const NetState::Admission admission_;
  Phase phase_ = Phase::handshake;

  std::string backlog_;  // bytes read and not used yet: an unfinished line, or the requests behind the one under way
  std::unique_ptr<RequestParser> parser_;  // in Phase::head and body
  BodyShare body_share_;                   // in Phase::head and body
  std::unique_ptr<HttpResponse> veto_;     // on_head's answer to a request whose body is still read
  std::size_t discarded_ = 0;
  bool reading_ = false;            // a wait is pending
  bool read_wants_write_ = false;   // TLS
  bool input_ended_ = false;
  bool discarding_ = false;         // what comes is not looked at any more

  OutQueue out_;
  std::shared_ptr<Answer> answer_;
  bool called_ = false;
  bool answer_ended_ = false;       // nothing will be added to out_
  int unread_bytes_ = 0;            // when the deadline for writing was set
  bool writing_ = false;            // a wait is pending
  bool write_wants_read_ = false;   // TLS
  bool keep_alive_ = false, http_1_0_ = false, head_only_ = false, event_stream_ = false;  // of the request under way
};

}  // namespace millrace::server::net
