#pragma once

// A few threads for what takes longer than a connection's thread may give: parsing, templates, tokenizing. Whoever gives
// much work waits behind his own: tenants take turns.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace millrace::server {

class WorkPool {
 public:
  explicit WorkPool(int threads);
  ~WorkPool();  // as stop()

  /// Any thread. In the order of one tenant's tasks; after stop() the task is dropped, with what it holds, and so it is when `given_up`
  /// says true at its turn.
  void post(int tenant, std::function<void()> task, std::function<bool()> given_up);

  /// Tasks that wait or run.
  int pending() const;

  /// Waits for the tasks that run; those that wait are dropped.
  void stop();

 private:
  struct Task { std::function<void()> run; std::function<bool()> given_up; };
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::deque<Task>> waiting_;  // by tenant; none is empty
  int last_tenant_ = -1;                     // whose turn it was
  int pending_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace millrace::server
