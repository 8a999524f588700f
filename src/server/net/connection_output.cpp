// The writing side of a connection.

#include <fmt/format.h>

#include "base/check.h"
#include "server/net/connection.h"
#include "server/net/response_text.h"

namespace millrace::server::net {
namespace {

constexpr std::chrono::milliseconds kLingerTimeout{5000};
constexpr int kPiecesPerWrite = 16;
constexpr std::size_t kUncounted = 64 << 10;  // answers up to here are not worth it

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

void Connection::apply(ExchangeCall call) {
  std::visit(Overloaded{[&](RespondCall& it) { write_whole(std::move(it.response)); },
                        [&](StartStreamCall& it) { start_stream(it.head); },
                        [&](WriteCall& it) { write_piece(std::move(it.data)); },
                        [&](EndStreamCall&) { end_stream(); },
                        [&](OnGoneCall& it) { answer_->on_gone = std::move(it.gone); },
                        [&](PostCall& it) { it.task(); },
                        [&](DroppedCall&) {
                          if (answer_->streaming) return abort();
                          write_whole(io_.state().refusal(500, "the request was given up by the server"));
                        }},
             call);
}

void Connection::after_calls() {
  called_ = false;
  flush();
}

void Connection::write_whole(HttpResponse response) {
  // What a slow client leaves unread stays in memory: it counts like a body.
  if (answer_ && response.body.size() > kUncounted && !answer_->body_share.grow(response.body.size(), limits().all_body_bytes))
    response = io_.state().refusal(503, fmt::format("the answer has {} bytes, with those of all clients no more fit into {}", response.body.size(), limits().all_body_bytes));
  keep_alive_ = keep_alive_ && !io_.stopping();
  write_head(out_.tail(), response,
             {.content_length = response.body.size(),
              .keep_alive = keep_alive_,
              .http_1_0 = http_1_0_,
              .date = io_.date(),
              .server_name = io_.state().options.server_name});
  if (!head_only_ && status_has_body(response.status)) out_.add(std::move(response.body));
  answer_ended_ = true;
}

void Connection::start_stream(const HttpResponse& head) {
  MILLRACE_CHECK(head.body.empty() && status_has_body(head.status), "the head of a stream has a body, or allows none");
  answer_->streaming = true;
  event_stream_ = head.content_type.starts_with("text/event-stream");
  keep_alive_ = keep_alive_ && !io_.stopping() && (!http_1_0_ || head_only_);
  write_head(out_.tail(), head,
             {.chunked = !http_1_0_,
              .keep_alive = keep_alive_,
              .http_1_0 = http_1_0_,
              .date = io_.date(),
              .server_name = io_.state().options.server_name});
}

void Connection::write_piece(std::string data) {
  if (head_only_) return;
  if (http_1_0_)
    out_.add(std::move(data));
  else
    write_chunk(out_.tail(), data);
}

void Connection::end_stream() {
  if (!http_1_0_ && !head_only_) out_.tail().append(kLastChunk);
  answer_ended_ = true;
}

void Connection::wait_writable() {
  if (writing_ || phase_ == Phase::closed) return;
  writing_ = true;
  descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                         [self = shared_from_this()](const boost::system::error_code& problem) {
                           self->writing_ = false;
                           if (!problem) self->on_writable();
                         });
}

void Connection::on_writable() {
  if (phase_ == Phase::closed) return;
  if (phase_ == Phase::handshake) return on_readable();
  flush();
  if (std::exchange(read_wants_write_, false)) on_readable();
}

void Connection::flush() {
  if (phase_ == Phase::closed || phase_ == Phase::lingering) return;
  bool progress = false;
  while (!out_.empty()) {
    iovec pieces[kPiecesPerWrite];
    const IoResult put = stream_->write(pieces, out_.gather(pieces, kPiecesPerWrite));
    if (put.what == Io::done) {
      out_.drop(put.bytes);
      metrics().sent_bytes_total.add(put.bytes);
      progress = true;
      continue;
    }
    if (put.what == Io::failed || put.what == Io::ended) return close();
    const bool stalled_before = writing_ || write_wants_read_;
    if (put.what == Io::wants_read) {
      write_wants_read_ = true;
      wait_readable();
    } else {
      wait_writable();
    }
    if (phase_ == Phase::answering && (progress || !stalled_before)) {
      unread_bytes_ = unread_bytes();
      set_deadline_in(limits().write_timeout);
    }
    if (answer_ && answer_->streaming && out_.bytes() > limits().max_unsent_bytes) abort();
    return;
  }
  if (progress && phase_ == Phase::answering) no_deadline();
  if (answer_ended_) end_answer();
}

/// All of it is with the kernel.
void Connection::end_answer() {
  answer_ended_ = false;
  forget_answer();
  if (!keep_alive_ || io_.stopping())
    finish();
  else
    next_request();
}

void Connection::next_request() {
  phase_ = Phase::idle;
  set_deadline_in(limits().idle_timeout);
  if (!backlog_.empty()) on_bytes({});
  if (!input_ended_) return read_on();
  if (phase_ != Phase::answering && phase_ != Phase::closed) on_end_of_input();
}

/// Nothing more is said.
void Connection::finish() {
  stream_->end_output();
  if (input_ended_ || (!discarding_ && backlog_.empty())) return close();
  discarding_ = true;
  std::string().swap(backlog_);
  phase_ = Phase::lingering;
  set_deadline_in(kLingerTimeout);
  read_on();
}

}  // namespace millrace::server::net
