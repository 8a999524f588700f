#include "engine/event_channel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace millrace::engine {

EventChannel::Pushed EventChannel::push(Event& event) {
  const std::lock_guard lock(mutex_);
  MILLRACE_CHECK(!unread_.finished && !over_, "an event follows the last one");
  unread_.text += event.text;
  std::ranges::move(event.tokens, std::back_inserter(unread_.tokens));
  unread_.usage = event.usage;
  if (event.finished) {
    unread_.finished = event.finished;
    unread_.stop_reason = event.stop_reason;
    unread_.error = std::move(event.error);
    unread_.cache = std::move(event.cache);
  }
  const bool first = !std::exchange(anything_, true);
  event.text.clear();
  event.tokens.clear();
  changed_.notify_one();
  return {unread_.tokens.size(), first};
}

std::optional<Event> EventChannel::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (timeout.count() > 0) changed_.wait_for(lock, bounded(timeout), [&] { return anything_ || over_; });
  if (!std::exchange(anything_, false)) return std::nullopt;
  over_ = unread_.finished.has_value();
  if (over_) return std::exchange(unread_, {});
  // A copy, made by the client's thread: the engine's memory stays with the engine.
  Event event{.text = unread_.text, .tokens = {}, .finished = {}, .stop_reason = {}, .error = {}, .usage = unread_.usage, .cache = {}};
  event.tokens.reserve(unread_.tokens.size());
  std::ranges::move(unread_.tokens, std::back_inserter(event.tokens));
  unread_.text.clear();
  unread_.tokens.clear();
  return event;
}

std::chrono::milliseconds bounded(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

}  // namespace millrace::engine
