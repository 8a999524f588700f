#include "server/net/work_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace millrace::server {
namespace {

// Behind the model's workers, which all answers wait for, and the threads that talk to clients.
constexpr int kNice = 5;

}  // namespace

WorkPool::WorkPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

WorkPool::~WorkPool() { stop(); }

void WorkPool::post(int tenant, std::function<void()> task, std::function<bool()> given_up) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  waiting_[tenant].push_back({std::move(task), std::move(given_up)});
  ++pending_;
  changed_.notify_one();
}

int WorkPool::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_;
}

void WorkPool::work() {
  ::pthread_setname_np(::pthread_self(), "millrace-pool");
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);  // of this thread only; where it fails, nothing is lost but the order
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
    if (stopped_) return;
    auto turn = waiting_.upper_bound(last_tenant_);
    if (turn == waiting_.end()) turn = waiting_.begin();
    last_tenant_ = turn->first;
    Task task = std::move(turn->second.front());
    turn->second.pop_front();
    if (turn->second.empty()) waiting_.erase(turn);
    lock.unlock();
    if (!task.given_up()) task.run();
    task = {};
    lock.lock();
    --pending_;
  }
}

void WorkPool::stop() {
  std::map<int, std::deque<Task>> dropped;  // goes after the lock: what tasks hold may answer
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

}  // namespace millrace::server
