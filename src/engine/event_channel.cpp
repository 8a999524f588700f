#include "engine/event_channel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace millrace::engine {

std::size_t EventChannel::push(Event event) {
  const std::lock_guard lock(mutex_);
  if (!unread_) {
    unread_ = std::move(event);
  } else {
    MILLRACE_CHECK(!unread_->finished, "an event follows the last one");
    unread_->text += event.text;
    std::ranges::move(event.tokens, std::back_inserter(unread_->tokens));
    unread_->finished = event.finished;
    unread_->error = std::move(event.error);
    unread_->usage = event.usage;
    unread_->cache = std::move(event.cache);
  }
  changed_.notify_one();
  return unread_->tokens.size();
}

std::optional<Event> EventChannel::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, bounded(timeout), [&] { return unread_ || over_; });
  if (!unread_) return std::nullopt;
  over_ = unread_->finished.has_value();
  return std::exchange(unread_, std::nullopt);
}

std::chrono::milliseconds bounded(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

}  // namespace millrace::engine
