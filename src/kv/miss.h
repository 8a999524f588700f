#pragma once

// Why a prompt token is computed although prefixes are shared. Positions and counts only; who remembers what is in
// seen_blocks.h.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/ids.h"

namespace millrace::kv {

/// Of several that apply the first in this list is the cause:
///
///   disabled       the sequence shares nothing, or each row of its prompt is asked for
///   first_seen     nothing known begins like this
///   diverged       something known has the same tokens up to a position, and another one there
///   partial_block  the token is known behind this prefix, and a block is shared whole or not at all: it stands before
///                  the divergence in its block, or in the block that holds the last token, which is always computed
///   evicted        its block was published under this salt and is gone
///   salt           its block was published under other salts only
///
/// `first_seen` and `disabled` claim nothing that must be remembered. The others are claims about blocks seen before,
/// and each was compared token by token; what is too long ago to be remembered counts as first_seen. The tokens behind
/// the last full block are compared with what is known; where nothing is, they are partial_block.
enum class MissCause : std::uint8_t { first_seen, diverged, evicted, salt, partial_block, disabled };
inline constexpr int kMissCauses = 6;

constexpr std::string_view to_string(MissCause cause) {
  constexpr std::array<std::string_view, kMissCauses> words = {"first_seen", "diverged",      "evicted",
                                                               "salt",       "partial_block", "disabled"};
  return words[static_cast<std::size_t>(cause)];
}

/// The causes of the positions of a prompt from one that is about to be computed to the end. Known content comes first,
/// so three borders say it all:
///
///   [.., salt_from) evicted   [salt_from, partial_from) salt   [partial_from, new_from) partial_block
///   [new_from, end) diverged or first_seen
struct Misses {
  bool disabled = false;
  bool diverged = false;
  int salt_from = 0, partial_from = 0, new_from = 0;
  TokenId known = -1;  // when diverged: what stands at `new_from` in the nearest that is known
};

constexpr MissCause cause_at(const Misses& m, int position) {
  if (m.disabled) return MissCause::disabled;
  if (position >= m.new_from) return m.diverged ? MissCause::diverged : MissCause::first_seen;
  if (position >= m.partial_from) return MissCause::partial_block;
  return position >= m.salt_from ? MissCause::salt : MissCause::evicted;
}

/// Tokens by cause.
using MissCounts = std::array<int, kMissCauses>;

/// Adds the positions [first, end) to their causes.
constexpr void add(MissCounts& counts, const Misses& m, int first, int end) {
  const int borders[] = {first, m.salt_from, m.partial_from, m.new_from, end};
  for (int i = 0; i < 4; ++i) {
    const int from = std::clamp(borders[i], first, end), to = std::clamp(borders[i + 1], first, end);
    if (from < to) counts[static_cast<std::size_t>(cause_at(m, from))] += to - from;
  }
}

namespace examples {

// 8 tokens were evicted, 4 are another tenant's, 2 of the next block agree with something known, the rest does not.
inline constexpr Misses kMixed{.diverged = true, .salt_from = 12, .partial_from = 16, .new_from = 18};
static_assert(cause_at(kMixed, 4) == MissCause::evicted && cause_at(kMixed, 12) == MissCause::salt);
static_assert(cause_at(kMixed, 17) == MissCause::partial_block && cause_at(kMixed, 18) == MissCause::diverged);

constexpr MissCounts counted(const Misses& m, int first, int end) {
  MissCounts counts{};
  add(counts, m, first, end);
  return counts;
}
static_assert(counted(kMixed, 4, 30) == MissCounts{0, 12, 8, 4, 2, 0});
static_assert(counted(kMixed, 10, 13) == MissCounts{0, 0, 2, 1, 0, 0});
static_assert(counted(kMixed, 20, 20) == MissCounts{});
static_assert(counted({}, 0, 7) == MissCounts{7, 0, 0, 0, 0, 0});
static_assert(counted({.disabled = true}, 0, 7) == MissCounts{0, 0, 0, 0, 0, 7});

}  // namespace examples
}  // namespace millrace::kv
