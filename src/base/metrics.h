#pragma once

// Counters that any thread may bump and one thread prints. A metric is a member of a
// struct owned by its module; there is no global registry to initialize or reset.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

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

/// How often values lay between bounds, which are one of the lists below; the unit is in the metric's name (step_us).
class Histogram {
 public:
  static constexpr std::size_t kMostBounds = 32;

  /// `bounds` rise and outlive the histogram.
  template <std::size_t n>
  explicit constexpr Histogram(const std::array<std::uint64_t, n>& bounds) : bounds_(bounds) {
    static_assert(n <= kMostBounds);
  }

  void record(std::uint64_t value) {
    const auto bucket = static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin());
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  std::span<const std::uint64_t> bounds() const { return bounds_; }
  /// Values in (bounds[i-1], bounds[i]]; the last one, i == bounds().size(), holds everything above.
  std::uint64_t bucket(std::size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  /// Of all buckets. Who prints both takes the sum of the buckets that it read: values come in meanwhile.
  std::uint64_t count() const {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i <= bounds_.size(); ++i) all += bucket(i);
    return all;
  }
  std::uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const std::uint64_t> bounds_;
  std::array<std::atomic<std::uint64_t>, kMostBounds + 1> buckets_{};
  std::atomic<std::uint64_t> sum_{0};
};

namespace bounds {

inline constexpr std::uint64_t kMs = 1000, kSecond = 1000 * kMs;

/// What a client waits for, in microseconds: 1 ms to 20 minutes.
inline constexpr std::array kLatencyUs = {
    1 * kMs,      2 * kMs,       5 * kMs,      10 * kMs,         20 * kMs,     40 * kMs,      60 * kMs,
    80 * kMs,     100 * kMs,     150 * kMs,    200 * kMs,        300 * kMs,    500 * kMs,     750 * kMs,
    1 * kSecond,  1500 * kMs,    2 * kSecond,  3 * kSecond,      5 * kSecond,  7500 * kMs,    10 * kSecond,
    20 * kSecond, 30 * kSecond,  60 * kSecond, 120 * kSecond,    300 * kSecond, 600 * kSecond, 1200 * kSecond};

/// What the engine's own work takes, in microseconds: 10 us to 10 s.
inline constexpr std::array<std::uint64_t, 26> kWorkUs = {
    10,        20,        50,        100,       200,       500,       1 * kMs,     2 * kMs,    5 * kMs,
    10 * kMs,  20 * kMs,  40 * kMs,  60 * kMs,  80 * kMs,  100 * kMs, 150 * kMs,   200 * kMs,  300 * kMs,
    500 * kMs, 750 * kMs, 1 * kSecond, 1500 * kMs, 2 * kSecond, 3 * kSecond, 5 * kSecond, 10 * kSecond};

/// Tokens of one request.
inline constexpr std::array<std::uint64_t, 19> kTokens = {1,    2,     5,     10,    20,    50,     100,    200,    500,    1000,
                                                          2000, 5000,  10000, 20000, 50000, 100000, 200000, 500000, 1000000};

static_assert(std::ranges::is_sorted(kLatencyUs) && std::ranges::is_sorted(kWorkUs) && std::ranges::is_sorted(kTokens));

}  // namespace bounds
}  // namespace millrace
