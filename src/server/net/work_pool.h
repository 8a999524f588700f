#pragma once

// A few threads for what takes longer than a connection's thread may give: parsing, templates, tokenizing.

#include <cstddef>
#include <functional>
#include <memory>

namespace millrace::server {

class WorkPool {
 public:
  explicit WorkPool(int threads);
  ~WorkPool();  // as stop()

  /// Any thread. After stop() the task is dropped, with what it holds.
  void post(std::function<void()> task);

  /// Waits for the tasks that run; those that wait are dropped.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::server
