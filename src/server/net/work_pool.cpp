#include "server/net/work_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace millrace::server {
namespace {

// Behind the model's workers, which all answers wait for, and the threads that talk to clients.
constexpr int kNice = 5;

}  // namespace

struct WorkPool::Impl {
  boost::asio::io_context tasks;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> open{tasks.get_executor()};
  std::vector<std::thread> threads;
};

WorkPool::WorkPool(int threads) : impl_(std::make_unique<Impl>()) {
  for (int i = 0; i < threads; ++i)
    impl_->threads.emplace_back([this] {
      ::pthread_setname_np(::pthread_self(), "millrace-pool");
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);  // of this thread only; where it fails, nothing is lost but the order
      impl_->tasks.run();
    });
}

WorkPool::~WorkPool() { stop(); }

void WorkPool::post(std::function<void()> task) { boost::asio::post(impl_->tasks, std::move(task)); }

void WorkPool::stop() {
  impl_->tasks.stop();
  for (std::thread& thread : impl_->threads)
    if (thread.joinable()) thread.join();
}

}  // namespace millrace::server
