#include "cli/load_client.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>

#include "cli/load_answer.h"

namespace millrace::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto kTick = 100ms;
constexpr int kStartsAtOnce = 32;  // then the streams that run get their turn

std::string request_text(const LoadTarget& target, std::string_view method, std::string_view path, std::string_view body) {
  std::string out = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\n", method, target.url.path, path, target.url.authority());
  for (const auto& [name, value] : target.headers) out += fmt::format("{}: {}\r\n", name, value);
  if (!body.empty()) out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  return out.append("\r\n").append(body);
}

Result<std::vector<tcp::endpoint>> addresses_of(asio::io_context& io, const ServerUrl& url) {
  error_code failure;
  std::vector<tcp::endpoint> out;
  for (const auto& found : tcp::resolver(io).resolve(url.host, url.port, failure)) out.push_back(found.endpoint());
  if (failure || out.empty()) return error(Code::not_found, "'{}' has no address: {}", url.host, failure.message());
  return out;
}

/// As many open files as the system lets us have: one for each stream.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A connection, and the request on it. Handlers hold it: it outlives what they wait for.
struct Stream {
  explicit Stream(asio::io_context& io) : socket(io) {}

  tcp::socket socket;
  bool runs = false;         // false: its handlers have nothing more to do
  bool is_connected = false;  // before this request
  bool is_written = false;    // all of it
  std::size_t record = 0, place = 0;  // in records_, in running_
  std::string request;
  LoadAnswer answer;
  std::array<char, 16384> buffer;
};
using StreamPtr = std::shared_ptr<Stream>;

class Load {
 public:
  Load(asio::io_context& io, std::vector<tcp::endpoint> addresses, const LoadTarget& target, LoadPlan& plan, const LoadOrder& order)
      : io_(io), addresses_(std::move(addresses)), target_(target), plan_(plan), order_(order), due_timer_(io), tick_timer_(io) {}

  LoadResult run() {
    const double cpu_s = cpu_seconds();
    start_us_ = now_us();
    tick();
    send_due();
    io_.run();
    result_.cpu_s = cpu_seconds() - cpu_s;
    return std::move(result_);
  }

 private:
  Microseconds elapsed_us() const { return now_us() - start_us_; }
  LoadRecord& record_of(const Stream& stream) { return result_.records[stream.record]; }

  /// Sends what is due and has room; comes back when more is, or when a stream ends.
  void send_due() {
    const LoadSpec& spec = plan_.spec();
    for (int started = 0; !result_.stopped && plan_.next_due_us(); ++started) {
      if (spec.concurrency > 0 && running_.size() >= static_cast<std::size_t>(spec.concurrency)) return;
      const Microseconds now = elapsed_us();
      if (spec.duration_s > 0 && static_cast<double>(now) >= spec.duration_s * 1e6) break;
      if (*plan_.next_due_us() > now) return wait_for_due(*plan_.next_due_us() - now);
      if (started == kStartsAtOnce) return asio::post(io_, [this] { send_due(); });
      start(plan_.take());
    }
    if (running_.empty()) tick_timer_.cancel(), ended_ = true;
  }

  void wait_for_due(Microseconds wait_us) {
    due_timer_.expires_after(std::chrono::microseconds(wait_us));
    due_timer_.async_wait([this](error_code cancelled) {
      if (!cancelled) send_due();
    });
  }

  void start(const LoadRequest& request) {
    LoadRecord& record = result_.records.emplace_back();
    record.is_long = request.is_long;
    record.due_us = request.due_us;
    StreamPtr stream;
    if (idle_.empty()) stream = std::make_shared<Stream>(io_);
    else stream = std::move(idle_.back()), idle_.pop_back();
    stream->record = result_.records.size() - 1;
    stream->request = request_text(target_, "POST", order_.path, order_.body(request));
    record.sent_us = elapsed_us();
    run(std::move(stream));
  }

  void run(StreamPtr stream) {
    stream->runs = true;
    stream->place = running_.size();
    running_.push_back(stream);
    result_.peak_running = std::max(result_.peak_running, static_cast<int>(running_.size()));
    if (stream->is_connected) return ask(stream);
    connect(stream, 0);
  }

  void connect(const StreamPtr& stream, std::size_t address) {
    error_code ignored;
    stream->socket.close(ignored);
    stream->socket.async_connect(addresses_[address], [this, stream, address](error_code failure) {
      if (!stream->runs) return;
      if (failure && address + 1 < addresses_.size()) return connect(stream, address + 1);
      if (failure) return give_up(stream, fmt::format("cannot connect: {}", failure.message()));
      error_code unimportant;
      stream->socket.set_option(tcp::no_delay(true), unimportant);
      ask(stream);
    });
  }

  /// Reads from the start: a server may refuse a request that it has not read to the end. What fails in writing fails in
  /// reading, too.
  void ask(const StreamPtr& stream) {
    stream->is_written = false;
    asio::async_write(stream->socket, asio::buffer(stream->request), [stream](error_code failure, std::size_t) { stream->is_written = !failure; });
    read(stream);
  }

  void read(const StreamPtr& stream) {
    stream->socket.async_read_some(asio::buffer(stream->buffer), [this, stream](error_code failure, std::size_t n) {
      if (!stream->runs) return;
      if (failure) return lost(stream, failure);
      LoadRecord& record = record_of(*stream);
      const std::size_t chunks = record.text_us.size();
      const bool ended = stream->answer.take({stream->buffer.data(), n}, elapsed_us(), record);
      progress_.text_chunks += record.text_us.size() - chunks;
      if (ended) return finish(stream);
      read(stream);
    });
  }

  void lost(const StreamPtr& stream, error_code failure) {
    if (stream->is_connected && !stream->answer.has_begun()) {  // the server had closed it while it was idle
      remove(*stream);
      auto fresh = std::make_shared<Stream>(io_);
      fresh->record = stream->record;
      fresh->request = std::move(stream->request);
      return run(std::move(fresh));
    }
    give_up(stream, failure == asio::error::eof ? "" : fmt::format("the connection broke: {}", failure.message()));
  }

  void give_up(const StreamPtr& stream, const std::string& why) {
    stream->answer.close(why, elapsed_us(), record_of(*stream));
    finish(stream);
  }

  void remove(Stream& stream) {
    stream.runs = false;
    std::swap(running_[stream.place], running_.back());
    running_[stream.place]->place = stream.place;
    running_.pop_back();
  }

  void finish(const StreamPtr& stream) {
    remove(*stream);
    ++(record_of(*stream).outcome == Outcome::done ? progress_.done : progress_.failed);
    error_code ignored;
    if (stream->is_written && stream->answer.reusable()) {
      stream->answer = {};
      stream->is_connected = true;
      idle_.push_back(stream);
    } else {
      stream->socket.close(ignored);
    }
    send_due();
  }

  void tick() {
    progress_.elapsed_s = static_cast<double>(elapsed_us()) / 1e6;
    progress_.sent = static_cast<int>(result_.records.size());
    progress_.running = static_cast<int>(running_.size());
    if (order_.stop && order_.stop(progress_)) return stop();
    const auto late = [&](const StreamPtr& stream) {
      return static_cast<double>(elapsed_us() - record_of(*stream).sent_us) > order_.timeout_s * 1e6;
    };
    for (std::size_t i = running_.size(); i-- > 0;)  // from the end: the last one takes the place of one that goes
      if (i < running_.size() && late(running_[i])) give_up(StreamPtr(running_[i]), fmt::format("no end within {} s", order_.timeout_s));
    if (ended_) return;
    tick_timer_.expires_after(kTick);
    tick_timer_.async_wait([this](error_code cancelled) {
      if (!cancelled) tick();
    });
  }

  void stop() {
    result_.stopped = true;
    due_timer_.cancel();
    for (const StreamPtr& stream : running_) {
      error_code ignored;
      stream->runs = false;
      stream->socket.close(ignored);
      record_of(*stream).end_us = elapsed_us();
    }
    running_.clear();
  }

  asio::io_context& io_;
  std::vector<tcp::endpoint> addresses_;
  const LoadTarget& target_;
  LoadPlan& plan_;
  const LoadOrder& order_;
  asio::steady_timer due_timer_, tick_timer_;
  Microseconds start_us_ = 0;
  std::vector<StreamPtr> running_, idle_;
  LoadProgress progress_;
  LoadResult result_;
  bool ended_ = false;
};

}  // namespace

Result<LoadResult> run_load(const LoadTarget& target, LoadPlan& plan, const LoadOrder& order) {
  asio::io_context io(1);
  MILLRACE_TRY(addresses, addresses_of(io, target.url));
  raise_file_limit();
  return Load(io, std::move(addresses), target, plan, order).run();
}

Result<PlainAnswer> get(const LoadTarget& target, const std::string& path, double timeout_s) {
  asio::io_context io(1);
  MILLRACE_TRY(addresses, addresses_of(io, target.url));
  tcp::socket socket(io);
  const std::string request = request_text(target, "GET", path, "");
  std::array<char, 16384> buffer;
  HttpAnswerParser answer;
  PlainAnswer out;
  std::string wrong;
  const std::function<void()> read = [&] {
    socket.async_read_some(asio::buffer(buffer), [&](error_code failure, std::size_t n) {
      wrong = failure == asio::error::eof ? answer.close() : failure ? failure.message() : answer.feed({buffer.data(), n}, out.body);
      if (!failure && wrong.empty() && !answer.done()) read();
    });
  };
  asio::async_connect(socket, addresses, [&](error_code failure, const tcp::endpoint&) {
    if (failure) return void(wrong = failure.message());
    asio::async_write(socket, asio::buffer(request), [](error_code, std::size_t) {});
    read();
  });
  io.run_for(std::chrono::microseconds(static_cast<std::int64_t>(timeout_s * 1e6)));
  if (!answer.done()) return error(Code::not_found, "{}{}: {}", target.url.authority(), path, wrong.empty() ? fmt::format("no answer within {} s", timeout_s) : wrong);
  out.status = answer.status();
  return out;
}

}  // namespace millrace::cli
