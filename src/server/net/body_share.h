#pragma once

// How much memory the bodies of all clients take together: each body has a share of one bound, so that many clients that
// each keep within their own cannot take all there is.

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace millrace::server::net {

using BodyBytes = std::atomic<std::size_t>;

/// Given back when it goes, with the request.
class BodyShare {
 public:
  BodyShare() = default;
  explicit BodyShare(std::shared_ptr<BodyBytes> all) : all_(std::move(all)) {}
  BodyShare(BodyShare&& other) noexcept : all_(std::move(other.all_)), mine_(std::exchange(other.mine_, 0)) {}
  BodyShare& operator=(BodyShare&& other) noexcept {
    std::swap(all_, other.all_);
    std::swap(mine_, other.mine_);
    return *this;
  }
  ~BodyShare() {
    if (all_) all_->fetch_sub(mine_, std::memory_order_relaxed);
  }

  /// False, and nothing is taken, if all would be more than `most` then.
  bool grow(std::size_t bytes, std::size_t most) {
    if (all_->fetch_add(bytes, std::memory_order_relaxed) + bytes > most) {
      all_->fetch_sub(bytes, std::memory_order_relaxed);
      return false;
    }
    mine_ += bytes;
    return true;
  }

 private:
  std::shared_ptr<BodyBytes> all_;
  std::size_t mine_ = 0;
};

}  // namespace millrace::server::net
