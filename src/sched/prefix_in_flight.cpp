// Prefixes in flight: a sequence whose next block another one is computing waits for it. Waiting is no promise and
// holds nothing up: it is decided anew in each plan, from who runs then, so the one who waits takes over where the
// other left off when that is cancelled, preempted or does not move. Who is waited for runs already in a step, or
// stands before in this very plan and does not wait itself: nobody waits in a circle, and the first in line never
// waits.

#include <algorithm>

#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

/// Both have the same tokens, from the first to `end`, and what `other` publishes is for `seq`. The positions before
/// the block are compared by name: a wrong guess costs a wait, never a wrong answer.
bool same_block(const Sequence& seq, const Sequence& other, int first, int end) {
  const auto before = static_cast<std::size_t>(first / (end - first));
  if (!other.spec.shares || !other.tables.publishes || other.spec.salt != seq.spec.salt) return false;
  if (other.tables.names.size() < before || seq.tables.names.size() != before) return false;
  if (before > 0 && other.tables.names[before - 1] != seq.tables.names[before - 1]) return false;
  return std::equal(seq.tokens.begin() + first, seq.tokens.begin() + end, other.tokens.begin() + first);
}

}  // namespace

/// `seq` was matched just now, and so were all that run before it.
bool Scheduler::waits_for_prefix(Sequence& seq) const {
  const Sequence* other = who_computes_next_block(seq);
  if (!other) {
    seq.idle_waits = 0;
    return false;
  }
  seq.idle_waits = other->planned != seq.awaited_at ? 0 : seq.idle_waits + (had_room_ ? 1 : 0);
  seq.awaited_at = other->planned;
  return keeps_waiting(seq.idle_waits);
}

const Sequence* Scheduler::who_computes_next_block(const Sequence& seq) const {
  const int first = seq.done, end = first + groups_.block_tokens();
  if (!seq.spec.shares || seq.in_flight() || first % groups_.block_tokens() != 0 || end > seq.shareable())
    return nullptr;
  bool before = true;
  for (const Sequence* other : running_) {
    if (other == &seq) {
      before = false;
      continue;
    }
    const bool in_step = other->done < end && other->planned >= end;
    const bool about_to = before && other->done < end && other->accepted() >= end;
    if ((in_step || about_to) && same_block(seq, *other, first, end)) return other;
  }
  return nullptr;
}

}  // namespace millrace::sched
