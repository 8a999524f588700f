#pragma once

// Counters by label values, of which there are at most so many: what a client can name must not fill memory, or a
// database of metrics. What comes after the table is full is counted as "other".

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/metrics.h"

namespace millrace::server {

class CounterTable {
 public:
  static constexpr std::size_t kMostValueBytes = 64;

  explicit CounterTable(std::size_t most) : most_(most) {}

  /// The counter of `value`, cut to kMostValueBytes; it stays where it is, so it may be kept. Any thread.
  Counter& at(std::string_view value) {
    const std::string_view key = value.substr(0, kMostValueBytes);
    const std::lock_guard lock(mutex_);
    if (const auto found = counters_.find(key); found != counters_.end()) return found->second;
    return counters_[counters_.size() < most_ ? std::string(key) : "other"];
  }

  void add(std::string_view value, std::uint64_t n = 1) { at(value).add(n); }

  /// In the order of values.
  std::vector<std::pair<std::string, std::uint64_t>> values() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, std::uint64_t>> out;
    for (const auto& [value, counter] : counters_) out.emplace_back(value, counter.value());
    return out;
  }

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::map<std::string, Counter, std::less<>> counters_;
};

}  // namespace millrace::server
