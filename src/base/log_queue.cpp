#include "base/log_queue.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/details/log_msg.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>

#include "base/log.h"

namespace millrace {
namespace {

/// What cannot be written (a full disk, a closed pipe) is lost: standard error itself is broken, there is nobody left to tell.
void write_or_lose(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {  // it was handed to us so
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (n == 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void LogQueue::start() {
  const std::lock_guard lock(mutex_);
  if (queues_) return;
  queues_ = true;
  ending_ = ended_ = false;
  std::thread([this] { run(); }).detach();  // nobody may have to wait for it
}

bool LogQueue::end(std::chrono::milliseconds still, std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  if (!queues_) return true;
  ending_ = true;
  work_.notify_one();
  const auto until = std::chrono::steady_clock::now() + most;
  for (std::uint64_t before = written_; !ended_; before = written_) {
    const auto patience = std::min(until, std::chrono::steady_clock::now() + still);
    if (!moved_.wait_until(lock, patience, [&] { return ended_ || written_ != before; })) return false;
  }
  queues_ = false;
  return true;
}

void LogQueue::add(std::string text) {
  const std::lock_guard lock(mutex_);
  take(std::move(text));
}

void LogQueue::sink_it_(const spdlog::details::log_msg& message) { take(formatted(message)); }

void LogQueue::take(std::string line) {
  if (!queues_) return write_or_lose(fd_, line);
  if (!lines_.empty() && bytes_ + line.size() > most_bytes_) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    ++untold_;
    return;
  }
  tell_dropped();
  bytes_ += line.size();
  lines_.push_back(std::move(line));
  work_.notify_one();
}

void LogQueue::tell_dropped() {
  if (untold_ == 0) return;
  const std::string text = log_line(log_format(), "log lines dropped", {{"lines", std::exchange(untold_, 0)}});
  lines_.push_back(formatted(spdlog::details::log_msg("millrace", spdlog::level::warn, text)));
  bytes_ += lines_.back().size();
}

std::string LogQueue::formatted(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  return std::string(line.data(), line.size());
}

void LogQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (lines_.empty()) tell_dropped();
    if (lines_.empty()) {
      if (ending_) break;
      work_.wait(lock, [&] { return !lines_.empty() || ending_; });
      continue;
    }
    const std::string line = std::move(lines_.front());
    lines_.pop_front();
    bytes_ -= line.size();
    lock.unlock();
    write_or_lose(fd_, line);
    lock.lock();
    ++written_;
    moved_.notify_all();
  }
  // Under the mutex: nothing comes between the last look into the queue and the moment from which others write themselves.
  ended_ = true;
  moved_.notify_all();
}

}  // namespace millrace
