#pragma once

// Which two neighbouring tokens merge into which one, and how early. An open-addressing table: looked up once per
// neighbour pair of every text, and filled with up to a million merges at load.

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace millrace::text {

class PairTable {
 public:
  struct Merge { std::uint32_t rank; TokenId token; };  // a lower rank merges first

  /// A pair that is there already gets the new merge.
  void set(TokenId left, TokenId right, Merge merge) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[find_slot(key_of(left, right))];
    if (slot.key == kEmpty) ++used_;
    slot = {key_of(left, right), merge};
  }

  /// nullptr when the two do not merge.
  const Merge* find(TokenId left, TokenId right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[find_slot(key_of(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.merge;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair: ids are not negative
  struct Slot { std::uint64_t key = kEmpty; Merge merge{}; };

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t find_slot(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    // Fibonacci hashing; the high half of the product is the well-mixed one.
    std::size_t at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.key != kEmpty) slots_[find_slot(slot.key)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t used_ = 0;
};

}  // namespace millrace::text
