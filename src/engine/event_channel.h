#pragma once

// What one request has said and its client has not read yet: one event, into which everything new is merged. The
// engine thread never waits here, and memory is bounded because the engine ends a request that nobody reads.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>

#include "engine/engine.h"

namespace millrace::engine {

class EventChannel {
 public:
  /// Engine thread. Takes text and tokens out of `event`, which keeps their memory: a client that reads as fast as tokens
  /// come costs the engine no allocation. What belongs to the end is taken with `finished`; nothing may follow that.
  struct Pushed {
    std::size_t unread;  // tokens
    bool first;          // nothing else was unread
  };
  Pushed push(Event& event);

  /// Client thread; see Handle::next.
  std::optional<Event> next(std::chrono::milliseconds timeout);

  /// Any thread. The engine looks before each step, and every 10 ms while requests wait for the disk only.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Event unread_;
  bool anything_ = false;  // is unread
  bool over_ = false;      // the last event was read
  std::atomic<bool> cancelled_{false};
};

/// `timeout` short enough for a clock to add it to now.
std::chrono::milliseconds bounded(std::chrono::milliseconds timeout);

}  // namespace millrace::engine
