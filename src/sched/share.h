#pragma once

// What of the places that tenants compete for is whose: of slots, and of a line that is bounded. Arithmetic only.

#include <algorithm>
#include <cstdint>

namespace millrace::sched {

/// Of `places`, those of a tenant of `weight` out of `weights`, its own among them.
constexpr std::int64_t share_of(std::int64_t places, std::int64_t weight, std::int64_t weights) { return places * weight / weights; }

static_assert(share_of(/*places=*/1024, /*weight=*/1, /*weights=*/1) == 1024);
static_assert(share_of(1024, 1, 4) == 256 && share_of(1024, 3, 4) == 768);

/// How many of `slots` a tenant may hold while others want them: its share among those with open sequences; one at least.
constexpr std::int64_t share_of_slots(std::int64_t slots, std::int64_t weight, std::int64_t weights) { return std::max<std::int64_t>(share_of(slots, weight, weights), 1); }

static_assert(share_of_slots(/*slots=*/64, /*weight=*/1, /*weights=*/2) == 32);
static_assert(share_of_slots(64, 3, 4) == 48);
static_assert(share_of_slots(2, 1, 100) == 1);

/// Whether somebody may join the line.
///
///   held     places that its tenant has already; a place is a request, or a token of a prompt
///   wanted   places more
///   in_line  places that all tenants have
///   most     how many there are
///   share    how many of them are its tenant's: share_of, among the tenants in the line and itself
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
