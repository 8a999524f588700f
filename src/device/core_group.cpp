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
// enough that a core which another process wants is given up within a fraction of a millisecond: the system moves the
// worker that is waited for there.
constexpr auto kBarrierSpin = std::chrono::microseconds(50);
constexpr auto kStartSpin = std::chrono::microseconds(200);

template <class T>
void wait_while_equal(const std::atomic<T>& word, T old, std::chrono::microseconds spin) {
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
  turn_.fetch_add(epochs::word(1, 0), std::memory_order_release);
  turn_.notify_all();
  for (std::thread& t : threads_) t.join();
  for (std::byte* s : scratch_) std::free(s);
}

void CoreGroup::start(std::span<const Launch> launches, const void* step) {
  MILLRACE_CHECK(!launches.empty() && launches.size() < epochs::kBusy, "a list of " + std::to_string(launches.size()) + " launches");
  launches_ = launches;
  step_ = step;
  const std::uint64_t epoch = epochs::epoch_of(turn_.load(std::memory_order_relaxed)) + 1;
  launch_epoch_.store(epoch, std::memory_order_relaxed);
  turn_.store(epochs::word(epoch, 0));
  turn_.notify_all();
}

void CoreGroup::wait() {
  if (caller_works_) work(0);
  for (std::uint64_t turn; epochs::number_of(turn = turn_.load()) != epochs::kOver;) wait_while_equal(turn_, turn, kBarrierSpin);
  // A worker may still be on its way out of a launch whose tiles others did.
  for (std::uint32_t inside; (inside = inside_.load()) != 0;) wait_while_equal(inside_, inside, kBarrierSpin);
}

void CoreGroup::thread_main(int index) {
  for (;;) {
    const std::uint64_t turn = turn_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;  // after turn_: a turn that is not waited for in vain
    if (epochs::number_of(turn) == epochs::kOver)
      wait_while_equal(turn_, turn, kStartSpin);
    else
      work(index);
  }
}

/// True: the list stays what it is at `turn` until leave(). Both this and wait() write one word and then read the
/// other, in one order for all: either wait() sees this worker inside, or it sees that the turn is over.
bool CoreGroup::enter(std::uint64_t turn) {
  inside_.fetch_add(1);
  if (turn_.load() == turn) return true;
  leave();
  return false;
}

void CoreGroup::leave() {
  if (inside_.fetch_sub(1) == 1 && epochs::number_of(turn_.load()) == epochs::kOver) inside_.notify_all();
}

void CoreGroup::work(int index) {
  Worker& worker = workers_[static_cast<std::size_t>(index)];
  for (std::uint64_t turn; epochs::number_of(turn = turn_.load(std::memory_order_acquire)) != epochs::kOver;) {
    if (epochs::number_of(turn) == epochs::kBusy) {
      wait_while_equal(turn_, turn, kBarrierSpin);
      continue;
    }
    if (!enter(turn)) continue;
    // It runs a launch from its start, even where the others have passed barriers within it.
    const std::uint64_t i = epochs::number_of(turn), epoch = launch_epoch_.load(std::memory_order_acquire);
    if (epoch > epochs::epoch_of(turn)) {  // of the launch after it, by now
      leave();
      continue;
    }
    const bool timed = index == 0 && !profile_.empty();
    const auto begin = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    worker.epoch_ = epoch, worker.launch_ = i, worker.loops_ = worker.tiles_ = 0;
    launches_[i].run(launches_[i].op, step_, worker);
    const bool first = advance(worker, [&] { return run_alone(i + 1, worker); });
    leave();
    if (!first) wait_for_others(worker);
    // The list stays while its caller works on it; where another thread waits, it may be over by now.
    if (!timed || (!caller_works_ && !enter(turn = turn_.load()))) continue;
    if (caller_works_ || epochs::number_of(turn) != epochs::kOver) profile_[i] += us_since(begin) - alone_us_.load(std::memory_order_relaxed);
    if (!caller_works_) leave();
  }
}

/// Passes the barrier for all, when the tiles of the worker's loops are done: next() is the launch behind it. False: some
/// are not, or another worker does it. Nobody is missed: who adds the last tiles to done_ comes here after that.
template <class Next>
bool CoreGroup::advance(Worker& worker, Next&& next) {
  if (done_.load(std::memory_order_acquire) != worker.tiles_) return false;
  std::uint64_t turn = epochs::word(worker.epoch_, worker.launch_);
  if (!turn_.compare_exchange_strong(turn, epochs::word(worker.epoch_, epochs::kBusy), std::memory_order_acq_rel)) return false;
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t launch = next();
  turn_.store(epochs::word(worker.epoch_ + 1, launch));
  turn_.notify_all();
  return true;
}

void CoreGroup::wait_for_others(const Worker& worker) const {
  for (std::uint64_t now; epochs::epoch_of(now = turn_.load(std::memory_order_acquire)) == worker.epoch_;) wait_while_equal(turn_, now, kBarrierSpin);
}

/// Runs the launches from `i` on that one worker does alone, each in an epoch of its own. Returns the first other one.
std::uint64_t CoreGroup::run_alone(std::uint64_t i, Worker& worker) {
  const bool timed = !profile_.empty();
  double alone_us = 0;
  for (; i < launches_.size() && launches_[i].alone && launches_[i].alone(launches_[i].op, step_); ++i) {
    const auto begin = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    ++worker.epoch_, worker.loops_ = worker.tiles_ = 0;
    launches_[i].run(launches_[i].op, step_, worker);
    done_.store(0, std::memory_order_relaxed);
    if (!timed) continue;
    const double us = us_since(begin);
    profile_[i] += us;
    alone_us += us;
  }
  if (timed) alone_us_.store(alone_us, std::memory_order_relaxed);
  launch_epoch_.store(worker.epoch_ + 1, std::memory_order_release);
  return i < launches_.size() ? i : epochs::kOver;
}

void Worker::barrier() {
  if (!group_->advance(*this, [&] { return launch_; })) group_->wait_for_others(*this);
  ++epoch_, loops_ = tiles_ = 0;
}

int Worker::open_loop(int n) {
  MILLRACE_CHECK(loops_ < kMaxTileLoops, "more than " + std::to_string(kMaxTileLoops) + " tile loops without a barrier");
  MILLRACE_CHECK(n >= 0 && static_cast<std::uint64_t>(n) < epochs::kMask, "a loop of " + std::to_string(n) + " tiles");
  tiles_ += n;
  return loops_++;
}

}  // namespace millrace::device
