#include "server/net/work_pool.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

namespace millrace::server {

struct WorkPool::Impl {
  explicit Impl(int threads) : pool(static_cast<std::size_t>(threads)) {}
  boost::asio::thread_pool pool;
};

WorkPool::WorkPool(int threads) : impl_(std::make_unique<Impl>(threads)) {}

WorkPool::~WorkPool() { stop(); }

void WorkPool::post(std::function<void()> task) { boost::asio::post(impl_->pool, std::move(task)); }

void WorkPool::stop() {
  impl_->pool.stop();
  impl_->pool.join();
}

}  // namespace millrace::server
