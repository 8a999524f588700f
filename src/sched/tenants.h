#pragma once

// What each tenant has been served, so that who had least goes first: a virtual token counter per tenant (Sheng et al.,
// "Fairness in Serving Large Language Models", 2024). Allocates only when a tenant is new.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>

namespace millrace::sched {

struct Tenant {
  std::int64_t served = 0;  // in charge() units
  int open = 0;             // sequences
  int running = 0;          // of them
  int weight = 1;
};

class Tenants {
 public:
  /// One more sequence of `id`. Who was away starts level with those who are there: rest earns no credit. Stays valid
  /// until leave().
  Tenant* join(int id, int weight = 1) {
    if (tenants_.size() >= kMostRemembered) std::erase_if(tenants_, [](const auto& entry) { return entry.second.open == 0; });
    Tenant& mine = tenants_[id];
    weights_ += mine.open > 0 ? weight - mine.weight : weight;
    mine.weight = weight;
    if (mine.open++ == 0) mine.served = std::max(mine.served, least_served(&mine));
    return &mine;
  }

  void leave(Tenant* tenant) {
    if (--tenant->open == 0) weights_ -= tenant->weight;
  }

  /// Of the tenants with open sequences, all together.
  std::int64_t weights() const { return weights_; }

  std::size_t size() const { return tenants_.size(); }

 private:
  static constexpr std::size_t kMostRemembered = 1024;  // beside those with open sequences

  /// Of the tenants other than `mine` that have open sequences; 0 without any.
  std::int64_t least_served(const Tenant* mine) const {
    const std::int64_t none = std::numeric_limits<std::int64_t>::max();
    std::int64_t least = none;
    for (const auto& [id, tenant] : tenants_)
      if (&tenant != mine && tenant.open > 0) least = std::min(least, tenant.served);
    return least == none ? 0 : least;
  }

  std::unordered_map<int, Tenant> tenants_;
  std::int64_t weights_ = 0;
};

}  // namespace millrace::sched
