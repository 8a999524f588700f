#pragma once

// Where the lines of the log go: to standard error, written by whoever logs, or by a thread of its own behind a bounded
// queue once that runs. Then nobody who logs waits for a reader that does not read. Knows lines, not events.
//
// Not spdlog's asynchronous logger: that one bounds its queue by lines, of which one may be a prompt of megabytes, and at its
// end waits for its thread, which may be in write() for ever.

#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace millrace {

/// Not to be destroyed while its thread runs.
class LogQueue final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  /// `fd` stays the caller's. `most_bytes`: of lines that wait; one line may always, however long.
  LogQueue(int fd, std::size_t most_bytes) : fd_(fd), most_bytes_(most_bytes) {}

  /// From now on a thread writes. It inherits the caller's signal mask.
  void start();

  /// Waits until the thread has written all that is there: at most `most` in all, and `still` in which not one line went
  /// out. In time, the thread has ended and lines are written directly again; else false, and it goes on until it can end.
  bool end(std::chrono::milliseconds still, std::chrono::milliseconds most);

  /// Whole lines, as they are.
  void add(std::string text);

  /// Lines that found no room. Where they are missing, once there is room again, stands one that says how many.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  void take(std::string line);
  void tell_dropped();
  std::string formatted(const spdlog::details::log_msg& message);
  void run();

  const int fd_;
  const std::size_t most_bytes_;
  std::atomic<std::uint64_t> dropped_ = 0;

  // Under base_sink's mutex_.
  std::condition_variable work_, moved_;
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  std::uint64_t written_ = 0;  // lines
  std::uint64_t untold_ = 0;   // of those dropped
  bool queues_ = false, ending_ = false, ended_ = false;
};

}  // namespace millrace
