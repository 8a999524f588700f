#include "device/core_group.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/check.h"

namespace millrace::device {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spin, then park. Long enough to cover the uneven end of a launch and the host's part of a decode step, short
// enough that a core which another process wants is given up within a fraction of a millisecond.
constexpr auto kBarrierSpin = std::chrono::microseconds(50);
constexpr auto kStartSpin = std::chrono::microseconds(200);

void wait_while_equal(const std::atomic<std::uint32_t>& word, std::uint32_t old, std::chrono::microseconds spin) {
  for (int i = 0; i < 64; ++i) {  // most waits end here, without a look at the clock
    if (word.load(std::memory_order_acquire) != old) return;
    relax();
  }
  const auto deadline = std::chrono::steady_clock::now() + spin;
  while (std::chrono::steady_clock::now() < deadline)
    for (int i = 0; i < 32; ++i) {
      if (word.load(std::memory_order_acquire) != old) return;
      relax();
    }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

void pin_to(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)pthread_setaffinity_np(thread, sizeof(set), &set);  // best effort: a forbidden core only costs speed
}

double us_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

CoreGroup::CoreGroup(CoreGroupOptions options) : scratch_bytes_((options.scratch_bytes + 63) / 64 * 64), caller_works_(options.caller_works) {
  MILLRACE_CHECK(options.workers >= 1, "a core group of " + std::to_string(options.workers) + " workers");
  const auto n = static_cast<std::size_t>(options.workers);
  shares_ = std::make_unique<Share[]>(n * kMaxTileLoops);
  for (std::size_t i = 0; i < n; ++i) {
    scratch_.push_back(scratch_bytes_ ? static_cast<std::byte*>(std::aligned_alloc(64, scratch_bytes_)) : nullptr);
    MILLRACE_CHECK(!scratch_bytes_ || scratch_.back(), "no memory for worker scratch of " + std::to_string(scratch_bytes_) + " bytes");
    workers_.push_back(Worker(*this, static_cast<int>(i), options.workers, {scratch_.back(), scratch_bytes_}));
  }
  for (std::size_t i = caller_works_ ? 1 : 0; i < n; ++i) {
    threads_.emplace_back([this, i] { thread_main(static_cast<int>(i)); });
    if (i < options.cpus.size()) pin_to(threads_.back().native_handle(), options.cpus[i]);
  }
}

CoreGroup::~CoreGroup() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& t : threads_) t.join();
  for (std::byte* s : scratch_) std::free(s);
}

void CoreGroup::start(std::span<const Launch> launches, const void* step) {
  MILLRACE_CHECK(!launches.empty(), "an empty list of launches");
  launches_ = launches;
  step_ = step;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
}

void CoreGroup::wait() {
  if (caller_works_) {
    work(0);
    return;
  }
  const std::uint32_t target = epoch_.load(std::memory_order_relaxed);
  for (std::uint32_t done; (done = done_.load(std::memory_order_acquire)) != target;) wait_while_equal(done_, done, kBarrierSpin);
}

void CoreGroup::thread_main(int index) {
  for (std::uint32_t seen = 0;; ++seen) {
    wait_while_equal(epoch_, seen, kStartSpin);
    if (stop_.load(std::memory_order_relaxed)) return;
    work(index);
  }
}

/// Runs the launches from `i` on that one worker does alone. Returns the first other one.
std::size_t CoreGroup::run_alone(std::size_t i, Worker& worker) {
  const bool timed = !profile_.empty();
  alone_us_ = 0;
  for (; i < launches_.size() && launches_[i].alone && launches_[i].alone(launches_[i].op, step_); ++i) {
    const auto begin = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    launches_[i].run(launches_[i].op, step_, worker);
    reset_shares(std::exchange(worker.loops_, 0));
    if (!timed) continue;
    const double us = us_since(begin);
    profile_[i] += us;
    alone_us_ += us;
  }
  return i;
}

void CoreGroup::work(int index) {
  Worker& worker = workers_[static_cast<std::size_t>(index)];
  const bool timed = index == 0 && !profile_.empty();
  // The list may be replaced as soon as the last barrier has passed: nothing of it is read after that.
  const std::span<const Launch> launches = launches_;
  const void* step = step_;
  for (std::size_t i = 0; i < launches.size();) {
    const auto begin = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    launches[i].run(launches[i].op, step, worker);
    meet(std::exchange(worker.loops_, 0), [&] {
      next_launch_ = run_alone(i + 1, worker);
      if (next_launch_ < launches.size() || caller_works_) return;
      done_.fetch_add(1, std::memory_order_release);
      done_.notify_all();
    });
    // Where another thread waits, the list is over for it by now, and so may be the profile: its last launch goes untimed.
    if (timed && (caller_works_ || next_launch_ < launches.size())) profile_[i] += us_since(begin) - alone_us_;
    i = next_launch_;
  }
}

void CoreGroup::reset_shares(int loops) {
  for (int loop = 0; loop < loops; ++loop)
    for (int w = 0; w < workers(); ++w) share(loop, w).next.store(0, std::memory_order_relaxed);
}

template <class LastInDoes>
void CoreGroup::meet(int loops, LastInDoes&& last_in_does) {
  const std::uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < workers()) {
    wait_while_equal(generation_, generation, kBarrierSpin);
    return;
  }
  // Last one in: nobody is between barriers now, so the tile counters can start over.
  arrived_.store(0, std::memory_order_relaxed);
  reset_shares(loops);
  last_in_does();
  generation_.store(generation + 1, std::memory_order_release);
  generation_.notify_all();
}

void Worker::barrier() { group_->meet(std::exchange(loops_, 0), [] {}); }

int Worker::next_loop() {
  MILLRACE_CHECK(loops_ < kMaxTileLoops, "more than " + std::to_string(kMaxTileLoops) + " tile loops without a barrier");
  return loops_++;
}

}  // namespace millrace::device
