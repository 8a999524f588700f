#pragma once

// Who goes first and who gives way, as pure functions. Times are arguments; knows no pool and no sequence.

#include <cstdint>
#include <limits>

namespace millrace::sched {

/// How a request has been treated. Higher goes first, whatever the priorities.
enum class Standing : std::uint8_t {
  ordinary,
  starving,   // has waited longer than anybody should
  sheltered,  // was preempted kMostPreemptions times, and never will be again
};

/// After that many a sequence comes back only when its longest text fits beside those of all other sheltered ones. They
/// rank before everybody else, so that what they need is always there or can be taken from another.
inline constexpr int kMostPreemptions = 3;

constexpr Standing standing_of(int preemptions, std::int64_t waited_us, std::int64_t max_wait_us) {
  if (preemptions >= kMostPreemptions) return Standing::sheltered;
  return max_wait_us > 0 && waited_us >= max_wait_us ? Standing::starving : Standing::ordinary;
}

static_assert(standing_of(/*preemptions=*/0, /*waited_us=*/29'000'000, /*max_wait_us=*/30'000'000) == Standing::ordinary);
static_assert(standing_of(0, 30'000'000, 30'000'000) == Standing::starving);
static_assert(standing_of(3, 0, 30'000'000) == Standing::sheltered);
static_assert(standing_of(0, 1'000'000'000, 0) == Standing::ordinary);

/// Who is preempted last: the order in which running sequences give way, read from its end.
struct Rank {
  Standing standing = Standing::ordinary;
  int priority = 0;
  std::int64_t arrival = 0;
};

constexpr bool runs_before(const Rank& a, const Rank& b) {
  if (a.standing != b.standing) return a.standing > b.standing;
  const bool by_priority = a.standing == Standing::ordinary && a.priority != b.priority;
  return by_priority ? a.priority > b.priority : a.arrival < b.arrival;
}

static_assert(runs_before({.priority = 1, .arrival = 9}, {.priority = 0, .arrival = 1}));
static_assert(runs_before({.arrival = 1}, {.arrival = 9}));
static_assert(runs_before({.standing = Standing::starving, .priority = 0}, {.priority = 9}));
static_assert(runs_before({.standing = Standing::starving, .arrival = 1}, {.standing = Standing::starving, .priority = 9, .arrival = 9}));

/// No deadline.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// The last moment at which the work left can begin: least laxity is the smallest of these, whatever the time is now.
constexpr std::int64_t latest_start_us(std::int64_t due_us, double left_us) {
  return due_us == kNever ? kNever : due_us - static_cast<std::int64_t>(left_us);
}

static_assert(latest_start_us(/*due_us=*/1'000'000, /*left_us=*/300'000) == 700'000);
static_assert(latest_start_us(kNever, 300'000) == kNever);

/// Who is served next, in the line and among the prefills of a step: who is sheltered; then the tenant that had least for its
/// weight; among its requests those that starve, priority, least laxity, first come.
struct Turn {
  Standing standing = Standing::ordinary;
  int priority = 0;
  std::int64_t latest_start_us = kNever;
  std::int64_t tenant_served = 0;
  std::int64_t arrival = 0;
};

constexpr bool goes_before(const Turn& a, const Turn& b) {
  const bool a_is_sheltered = a.standing == Standing::sheltered, b_is_sheltered = b.standing == Standing::sheltered;
  if (a_is_sheltered != b_is_sheltered) return a_is_sheltered;
  if (a_is_sheltered) return a.arrival < b.arrival;
  // What a tenant wishes, and how long it has waited behind its own requests, counts among its own only.
  if (a.tenant_served != b.tenant_served) return a.tenant_served < b.tenant_served;
  if (a.standing != b.standing) return a.standing > b.standing;
  if (a.standing == Standing::starving) return a.arrival < b.arrival;
  if (a.priority != b.priority) return a.priority > b.priority;
  return a.latest_start_us != b.latest_start_us ? a.latest_start_us < b.latest_start_us : a.arrival < b.arrival;
}

static_assert(goes_before({.priority = 1, .arrival = 9}, {.priority = 0, .latest_start_us = 5, .arrival = 1}));
static_assert(goes_before({.latest_start_us = 500, .arrival = 9}, {.latest_start_us = 900, .arrival = 1}));
static_assert(goes_before({.latest_start_us = 900, .arrival = 9}, {.arrival = 1}));
static_assert(goes_before({.tenant_served = 1}, {.priority = 1000, .latest_start_us = 0, .tenant_served = 2}));
static_assert(goes_before({.tenant_served = 1, .arrival = 9}, {.standing = Standing::starving, .tenant_served = 2, .arrival = 1}));
static_assert(goes_before({.standing = Standing::sheltered, .tenant_served = 2}, {.tenant_served = 1}));
static_assert(goes_before({.tenant_served = 10, .arrival = 9}, {.tenant_served = 20, .arrival = 1}));
static_assert(goes_before({.standing = Standing::starving}, {.priority = 9}));
static_assert(goes_before({.arrival = 1}, {.arrival = 9}));

/// What a tenant is charged for tokens that run. A token of the answer costs two of the prompt, as it takes about a
/// pass over the weights that others share. Weight 2 gets twice the tokens of weight 1.
constexpr std::int64_t charge(int prompt_tokens, int answer_tokens, int weight) {
  return (std::int64_t{prompt_tokens} + std::int64_t{2} * answer_tokens) * 1000 / weight;
}

static_assert(charge(/*prompt_tokens=*/100, /*answer_tokens=*/0, /*weight=*/1) == 2 * charge(100, 0, 2));
static_assert(charge(0, 1, 1) == charge(2, 0, 1));

}  // namespace millrace::sched
