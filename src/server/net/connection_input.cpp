// The reading side of a connection.

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

#include "base/ascii.h"
#include "base/clock.h"
#include "server/net/connection.h"

namespace millrace::server::net {
namespace {

namespace asio = boost::asio;

// Of one connection in a row, so that an upload does not keep the others waiting.
constexpr int kReadsPerTurn = 16;

// Of requests behind the one that is answered. Above, the client waits.
constexpr std::size_t kMaxBacklog = 64 << 10;

// A body that nobody wants is read if it is at most this long: cheaper than a new connection.
constexpr std::uint64_t kSmallBody = 64 << 10;

// Read and thrown away after an answer that ends the connection. To close at once would reset it, and a client that is
// still sending would find the reset in place of the answer.
constexpr std::size_t kMaxDiscarded = 64 << 20;

// HTTP/1.0 knows no interim response that could find out whether a client is gone or has only said all it had to say, so
// it gets this long: enough for every answer but a generation's.
constexpr std::chrono::milliseconds kOldClientsGrace{500};

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool is_continue(std::string_view text) {
  constexpr std::string_view kWord = "100-continue";
  return std::ranges::equal(text, kWord, [](char a, char b) { return ascii_lower(a) == b; });
}

}  // namespace

void Connection::wait_readable() {
  if (reading_ || input_ended_ || phase_ == Phase::closed || input_is_full()) return;
  reading_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& problem) {
                           self->reading_ = false;
                           if (!problem) self->on_readable();
                         });
}

/// wait_readable, if bytes may be there that the descriptor does not show.
void Connection::read_on() {
  if (phase_ == Phase::closed || reading_) return;
  if (!stream_->holds_bytes()) return wait_readable();
  reading_ = true;
  asio::post(io_.context(), [self = shared_from_this()] {
    self->reading_ = false;
    self->on_readable();
  });
}

bool Connection::input_is_full() const { return phase_ == Phase::answering && !discarding_ && backlog_.size() >= kMaxBacklog; }

void Connection::on_readable() {
  if (std::exchange(write_wants_read_, false)) flush();
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    if (phase_ == Phase::handshake && !shake_hands()) return;
    if (phase_ == Phase::closed || input_ended_ || input_is_full()) return;
    const std::span<char> buffer = io_.buffer();
    const IoResult got = stream_->read(buffer.data(), buffer.size());
    switch (got.what) {
      case Io::done:
        metrics().received_bytes_total.add(got.bytes);
        on_bytes({buffer.data(), got.bytes});
        if (phase_ == Phase::closed) return;
        if (phase_ == Phase::head || phase_ == Phase::body) acknowledge_at_once();
        if (got.bytes < buffer.size() && !stream_->holds_bytes()) return wait_readable();
        break;
      case Io::wants_read: return wait_readable();
      case Io::wants_write: read_wants_write_ = true; return wait_writable();
      case Io::ended: return on_end_of_input();
      case Io::failed: return close();
    }
  }
  read_on();
}

bool Connection::shake_hands() {
  switch (stream_->handshake()) {
    case Io::done:
      phase_ = Phase::idle;
      set_deadline_in(limits().idle_timeout);
      return true;
    case Io::wants_read: wait_readable(); return false;
    case Io::wants_write: wait_writable(); return false;
    default: close(); return false;
  }
}

void Connection::on_bytes(std::string_view bytes) {
  if (discarding_) {
    discarded_ += bytes.size();
    if (discarded_ > kMaxDiscarded) close();
    return;
  }
  if (phase_ == Phase::answering) {
    backlog_.append(bytes);
  } else if (backlog_.empty()) {
    const std::size_t used = consume(bytes);
    if (used < bytes.size()) backlog_.append(bytes.substr(used));
  } else {
    std::string all = std::exchange(backlog_, {});
    all.append(bytes);
    const std::size_t used = consume(all);
    if (used < all.size()) backlog_ = all.erase(0, used);
  }
}

/// How many of `bytes` went into requests. Stops at the end of the first one: the next waits until that is answered.
std::size_t Connection::consume(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && (phase_ == Phase::idle || phase_ == Phase::head || phase_ == Phase::body)) {
    if (phase_ == Phase::idle) {
      // Some clients send a line break behind a body; it does not begin a request.
      if (bytes[used] == '\r' || bytes[used] == '\n') {
        ++used;
        continue;
      }
      parser_ = std::make_unique<RequestParser>(limits());
      body_share_ = BodyShare(io_.state().body_bytes);
      parser_->request().peer = peer_;
      phase_ = Phase::head;
      set_deadline_in(limits().header_timeout);
    }
    const std::size_t n = parser_->feed(bytes.substr(used));
    used += n;
    http_1_0_ = parser_->request().http_1_0;
    head_only_ = parser_->request().method == "HEAD";
    if (phase_ == Phase::body && !body_share_.grow(n, limits().all_body_bytes)) {
      refuse(503, fmt::format("the requests of all clients have {} bytes, no more fit", limits().all_body_bytes));
      return bytes.size();
    }
    switch (parser_->state()) {
      case RequestParser::State::head: return used;
      case RequestParser::State::body:
        if (phase_ == Phase::head) {
          phase_ = Phase::body;
          body_end_ = Clock::now() + limits().body_total_timeout;
          set_deadline(std::min(Clock::now() + limits().body_timeout, body_end_));
          on_head(used < bytes.size());
          if (discarding_) return bytes.size();
          break;
        }
        if (n > 0) set_deadline(std::min(Clock::now() + limits().body_timeout, body_end_));
        return used;
      case RequestParser::State::complete: on_request(); break;
      case RequestParser::State::refused: {
        const Refusal why = parser_->refusal();
        refuse(why.status, why.message);
        return bytes.size();
      }
    }
  }
  return used;
}

/// Of a request with a body: what the head alone decides is said now.
void Connection::on_head(bool body_is_here) {
  const HttpRequest& head = parser_->request();
  const std::string* expect = http_1_0_ ? nullptr : head.header("expect");
  if (expect && !is_continue(*expect)) return refuse(417, "nothing but 100-continue can be expected");
  if (const auto& ask = io_.state().options.on_head) {
    if (std::optional<HttpResponse> response = ask(head)) {
      const bool small = parser_->content_length().value_or(kSmallBody + 1) <= kSmallBody;
      if (expect || !small) return refuse_rest(std::move(*response));
      veto_ = std::make_unique<HttpResponse>(std::move(*response));
    }
  }
  if (!expect || body_is_here) return;
  out_.tail().append(kContinue);
  flush();
}

void Connection::on_request() {
  answer_ = std::make_shared<Answer>();
  answer_->request = std::move(parser_->request());
  answer_->body_share = std::exchange(body_share_, {});
  answer_->request.arrived_us = now_us();
  answer_->connection = this;
  keep_alive_ = parser_->keep_alive();
  parser_.reset();
  phase_ = Phase::answering;
  no_deadline();
  ExchangePtr exchange = make_exchange(answer_, io_.mailbox());
  if (const auto veto = std::exchange(veto_, nullptr))
    exchange->respond(std::move(*veto));
  else
    io_.state().handler(std::move(exchange));
}

/// The answer to what is no request; nothing after it is looked at.
void Connection::refuse(int status, const std::string& message) {
  if (status != 408) metrics().bad_requests_total.add();
  refuse_rest(io_.state().refusal(status, message));
}

void Connection::refuse_rest(HttpResponse response) {
  discarding_ = true;
  keep_alive_ = false;
  parser_.reset();
  body_share_ = {};
  veto_.reset();
  phase_ = Phase::answering;
  no_deadline();
  write_whole(std::move(response));
  flush();
  read_on();
}

void Connection::on_end_of_input() {
  input_ended_ = true;
  switch (phase_) {
    case Phase::head:
    case Phase::body: return refuse(400, "the connection ended in the middle of a request");
    case Phase::answering: break;
    default: return close();
  }
  find_out_if_anybody_is_there();
  if (phase_ == Phase::closed) return;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_error,
                         [self = shared_from_this()](const boost::system::error_code& problem) {
                           if (!problem) self->close();
                         });
}

/// The client has closed its connection, or only the half that it sends on: a client that is gone answers anything with a
/// reset. Of the interim responses 100 is the one that every client skips (Python's http.client takes 102 for the answer).
void Connection::find_out_if_anybody_is_there() {
  if (!answer_ || answer_ended_ || !out_.empty()) return;
  if (answer_->streaming) {
    if (event_stream_) write_piece(":\n\n");
  } else if (http_1_0_) {
    set_deadline_in(kOldClientsGrace);
  } else {
    out_.tail().append(kContinue);
  }
  flush();
}

}  // namespace millrace::server::net
