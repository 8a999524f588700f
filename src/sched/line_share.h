#pragma once

// Who may join a line that is bounded, by whose it is. Arithmetic only.

#include <cstdint>

namespace millrace::sched {

/// What a full line of `most` places keeps for a tenant of `weight` out of `weights`: of those in the line, and itself.
constexpr std::int64_t line_share(std::int64_t most, std::int64_t weight, std::int64_t weights) { return most * weight / weights; }

static_assert(line_share(/*most=*/1024, /*weight=*/1, /*weights=*/1) == 1024);
static_assert(line_share(1024, 1, 4) == 256 && line_share(1024, 3, 4) == 768);

/// Whether somebody may join the line.
///
///   held     places that its tenant has already; a place is a request, or a token of a prompt
///   wanted   places more
///   in_line  places that all tenants have
///   most     how many there are
///   share    how many of them are its tenant's, see line_share
///
/// There is room, or its tenant has not had its share yet: then the line grows beyond `most`, to twice that at the utmost,
/// and whoever has more than its share waits outside until it is back. Who has none in the line may always put one there.
constexpr bool may_wait(std::int64_t held, std::int64_t wanted, std::int64_t in_line, std::int64_t most, std::int64_t share) {
  if (in_line + wanted <= most) return true;
  return in_line + wanted <= 2 * most && (held == 0 || held + wanted <= share);
}

static_assert(may_wait(/*held=*/1000, /*wanted=*/24, /*in_line=*/1000, /*most=*/1024, /*share=*/1024));
static_assert(!may_wait(1024, 1, 1024, 1024, 1024));  // alone: the line is full
static_assert(!may_wait(1024, 1, 1024, 1024, 512));   // full of its own
static_assert(may_wait(0, 1, 1024, 1024, 512) && may_wait(511, 1, 1535, 1024, 512) && !may_wait(512, 1, 1536, 1024, 512));
static_assert(may_wait(0, 1, 3, 3, 0));         // a share of less than one is one
static_assert(!may_wait(0, 1, 2048, 1024, 1));  // bounded for all tenants together
static_assert(!may_wait(0, 1, 0, 0, 0));        // nobody may wait

}  // namespace millrace::sched
