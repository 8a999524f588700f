#pragma once

// Counters that any thread may bump and one thread prints. A metric is a member of a
// struct owned by its module; there is no global registry to initialize or reset.

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace millrace {

class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {
 public:
  void set(std::int64_t n) { value_.store(n, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// Powers of two from 1 to 2^31; the unit is in the metric's name (step_us).
class Histogram {
 public:
  void record(std::uint64_t value) {
    const int bucket = value <= 1 ? 0 : std::bit_width(value - 1);
    buckets_[static_cast<std::size_t>(bucket > 31 ? 31 : bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }
  /// Values in (2^(i-1), 2^i]; bucket 0 holds 0 and 1, bucket 31 everything above 2^30.
  std::uint64_t bucket(int i) const { return buckets_[static_cast<std::size_t>(i)].load(std::memory_order_relaxed); }
  std::uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<std::uint64_t>, 32> buckets_{};
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace millrace
