#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/utf8.h"

namespace millrace::text {
namespace {

// Positions in a word are 32 bit. No real word comes near; a longer one is cut.
constexpr std::size_t kLongestWord = std::size_t{1} << 30;

}  // namespace

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  for (; !word.empty(); word.remove_prefix(std::min(word.size(), kLongestWord))) {
    const std::string_view part = word.substr(0, kLongestWord);
    if (options_.ignore_merges) {
      if (const auto whole = find(part)) {
        out.push_back(*whole);
        continue;
      }
    }
    cut_into_symbols(part, scratch.symbols);
    if (scratch.symbols.empty()) continue;
    merge_all(scratch);
    for (std::int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<std::size_t>(i)].next)
      out.push_back(scratch.symbols[static_cast<std::size_t>(i)].token);
  }
}

void Bpe::cut_into_symbols(std::string_view word, std::vector<Scratch::Symbol>& symbols) const {
  symbols.clear();
  const auto add = [&](TokenId token) {
    symbols.push_back({.token = token, .previous = static_cast<std::int32_t>(symbols.size()) - 1, .next = -1});
  };
  bool after_unknown = false;
  while (!word.empty()) {
    std::size_t length = 1;
    if (!options_.byte_level) {
      const Utf8Step step = decode_utf8(word);
      if (step.kind == Utf8Step::Kind::character) length = static_cast<std::size_t>(step.length);
    }
    const std::string_view character = word.substr(0, length);
    word.remove_prefix(length);
    const auto byte_token = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
    const bool was_after_unknown = std::exchange(after_unknown, false);
    if (const auto token = find(character)) {
      add(*token);
    } else if (std::ranges::all_of(character, [&](char c) { return byte_token(c) >= 0; })) {
      for (const char c : character) add(byte_token(c));
    } else if (unknown_) {
      if (!(was_after_unknown && options_.fuse_unknown)) add(*unknown_);
      after_unknown = true;
    }
  }
  for (std::size_t i = 1; i < symbols.size(); ++i) symbols[i - 1].next = static_cast<std::int32_t>(i);
}

/// Sets `with_next` of one symbol.
void Bpe::look_up_merge(std::vector<Scratch::Symbol>& symbols, std::int32_t left) const {
  Scratch::Symbol& symbol = symbols[static_cast<std::size_t>(left)];
  const auto* merge =
      symbol.next < 0 ? nullptr : merges_.find(symbol.token, symbols[static_cast<std::size_t>(symbol.next)].token);
  symbol.with_next = merge ? *merge : kNoMerge;
}

/// Leaves the merged word as the list that starts at symbol 0: a merge keeps its left symbol.
void Bpe::merge_all(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.candidates;
  const auto at = [&](std::int32_t i) -> Scratch::Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  const auto can_merge = [&](std::int32_t left) {
    look_up_merge(symbols, left);
    if (at(left).with_next.token < 0) return false;
    heap.push_back(std::uint64_t{at(left).with_next.rank} << 32 | static_cast<std::uint32_t>(left));
    return true;
  };

  heap.clear();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) can_merge(i);
  std::ranges::make_heap(heap, std::greater{});
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, std::greater{});
    const std::uint64_t candidate = heap.back();
    heap.pop_back();
    const auto place = static_cast<std::int32_t>(static_cast<std::uint32_t>(candidate));
    Scratch::Symbol& left = at(place);
    // Stale, when one of the two symbols has merged with another since.
    if (left.with_next.token < 0 || left.with_next.rank != candidate >> 32) continue;
    Scratch::Symbol& right = at(left.next);
    left.token = left.with_next.token;
    left.next = right.next;
    right.with_next = kNoMerge;
    if (left.next >= 0) at(left.next).previous = place;
    for (const std::int32_t i : {left.previous, place})
      if (i >= 0 && can_merge(i)) std::ranges::push_heap(heap, std::greater{});
  }
}

}  // namespace millrace::text
