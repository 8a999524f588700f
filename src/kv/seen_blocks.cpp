#include "kv/seen_blocks.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace millrace::kv {

SeenBlocks::SeenBlocks(int n_entries, int block_tokens) : block_tokens_(block_tokens) {
  MILLRACE_CHECK(n_entries >= 1 && block_tokens >= 1, "room for " + std::to_string(n_entries) + " entries");
  const auto n = static_cast<std::size_t>(n_entries);
  entries_.resize(n);
  tokens_.resize(n * static_cast<std::size_t>(block_tokens));
  by_name_.assign(std::bit_ceil(n), -1);
  by_parent_ = by_name_;
  for (int i = 0; i < n_entries; ++i) at(i).older = i - 1, at(i).newer = i + 1 < n_entries ? i + 1 : -1;
  newest_ = n_entries - 1;
}

void SeenBlocks::note(const SeenContent& content, std::uint64_t salt) {
  int entry = find_entry(content, salt);
  if (entry >= 0) {
    unlink(entry);
  } else {
    entry = oldest_;
    if (at(entry).used) unlink(entry);
    Entry& e = at(entry);
    e.name = content.name;
    e.parent = content.parent;
    e.salt = salt;
    e.used = true;
    const auto n = static_cast<std::size_t>(block_tokens_);
    MILLRACE_CHECK(content.tokens.size() == n, "a block that is not full was noted");
    std::ranges::copy(content.tokens,
                      tokens_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(entry) * n));
  }
  link(entry);
  move_to_newest(entry);
}

SeenBlocks::Known SeenBlocks::find(const SeenContent& content, std::uint64_t salt) const {
  Known known = Known::never;
  for (int e = by_name_[bucket(content.name)]; e >= 0; e = at(e).next_of_name) {
    if (at(e).name != content.name || !std::ranges::equal(tokens_of(e), content.tokens)) continue;
    if (at(e).salt == salt) return Known::under_this_salt;
    known = Known::under_other_salts;
  }
  return known;
}

SeenBlocks::Nearest SeenBlocks::nearest(const BlockHash& parent, std::span<const TokenId> tokens,
                                        std::uint64_t salt) const {
  Nearest best;
  int compared = 0;
  for (int e = by_parent_[bucket(parent)]; e >= 0 && compared < kMostCompared; e = at(e).next_of_parent, ++compared) {
    if (at(e).parent != parent || at(e).salt != salt) continue;
    const auto known = tokens_of(e);
    const int common =
        static_cast<int>(std::mismatch(known.begin(), known.end(), tokens.begin(), tokens.end()).first - known.begin());
    if (common <= best.common) continue;
    best.common = common;
    best.next = common < block_tokens_ ? known[static_cast<std::size_t>(common)] : -1;
    if (common == static_cast<int>(tokens.size())) break;
  }
  return best;
}

std::span<const TokenId> SeenBlocks::tokens_of(int entry) const {
  const auto n = static_cast<std::size_t>(block_tokens_);
  return std::span(tokens_).subspan(static_cast<std::size_t>(entry) * n, n);
}

int SeenBlocks::find_entry(const SeenContent& content, std::uint64_t salt) const {
  int e = by_name_[bucket(content.name)];
  while (e >= 0 && !(at(e).name == content.name && at(e).salt == salt)) e = at(e).next_of_name;
  return e;
}

void SeenBlocks::link(int entry) {
  Entry& e = at(entry);
  int& named = by_name_[bucket(e.name)];
  e.next_of_name = named;
  named = entry;
  int& sibling = by_parent_[bucket(e.parent)];
  e.next_of_parent = sibling;
  e.previous_of_parent = -1;
  if (sibling >= 0) at(sibling).previous_of_parent = entry;
  sibling = entry;
}

void SeenBlocks::unlink(int entry) {
  Entry& e = at(entry);
  int* link = &by_name_[bucket(e.name)];
  while (*link != entry) link = &at(*link).next_of_name;
  *link = e.next_of_name;
  (e.previous_of_parent >= 0 ? at(e.previous_of_parent).next_of_parent : by_parent_[bucket(e.parent)]) =
      e.next_of_parent;
  if (e.next_of_parent >= 0) at(e.next_of_parent).previous_of_parent = e.previous_of_parent;
}

void SeenBlocks::move_to_newest(int entry) {
  if (entry == newest_) return;
  Entry& e = at(entry);
  (e.older >= 0 ? at(e.older).newer : oldest_) = e.newer;
  at(e.newer).older = e.older;  // it is not the newest
  e.older = newest_;
  e.newer = -1;
  at(newest_).newer = entry;
  newest_ = entry;
}

}  // namespace millrace::kv
