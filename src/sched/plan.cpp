// Scheduler::plan: decodes, then who may join, then prefills. The choices within are in policy.h.

#include <algorithm>
#include <string>

#include "base/check.h"
#include "sched/scheduler.h"

namespace millrace::sched {

void Scheduler::plan(StepPlan& step) {
  step.slices.clear();
  step.preempted.clear();
  step.copies.clear();
  room_ = {limits_.step_tokens, limits_.step_outputs};
  plan_decodes(step);
  if (step.preempted.empty()) admit();  // what was just taken from one is not for another
  plan_prefills(step);
  had_room_ = room_.tokens >= groups_.block_tokens();
}

void Scheduler::plan_decodes(StepPlan& step) {
  for (std::size_t i = 0; i < running_.size(); ++i) {  // place() may shorten the line behind i
    Sequence& seq = *running_[i];
    if (!seq.is_decode()) continue;
    if (seq.behind() > room_.tokens || seq.behind() > room_.rows) seq.drop_drafts();
    place(seq, seq.behind(), step);
  }
}

/// First come, first served within a priority: nobody overtakes the head of the line.
void Scheduler::admit() {
  while (!waiting_.empty() && n_running() < limits_.max_running) {
    Sequence& seq = *waiting_.front();
    seq.done = seq.planned = match(seq);
    if (!fits(seq)) {
      MILLRACE_CHECK(!running_.empty(), "sequence " + std::to_string(seq.id.value) + " does not fit an empty pool");
      groups_.release(seq.tables);
      seq.done = seq.planned = 0;
      return;
    }
    seq.count_prompt(seq.done, seq.cached);
    seq.running = true;
    waiting_.erase(waiting_.begin());
    running_.insert(std::ranges::upper_bound(running_, seq.rank, runs_before, &Sequence::rank), &seq);
  }
}

/// Whether blocks are there for all known tokens, beside those that the running sequences' known tokens still need.
/// They are taken chunk by chunk, yet prefills that were admitted never push each other out.
bool Scheduler::fits(const Sequence& seq) const {
  const int spare = spare_blocks(seq.preemptions > 0, n_running());
  for (int g = 0; g < groups_.n_groups(); ++g) {
    std::int64_t need = groups_.missing(seq.tables, g, seq.known()) + spare;
    for (const Sequence* other : running_) need += groups_.missing(other->tables, g, other->known());
    if (need > groups_.pool(g).available()) return false;
  }
  return true;
}

/// Shares what others have published meanwhile; returns the positions in the cache then.
int Scheduler::match(Sequence& seq) {
  if (!seq.spec.shares || seq.in_flight()) return seq.done;
  const int held = groups_.match(seq.tables, seq.tokens, seq.done, seq.shareable(), seq.spec.salt);
  seq.unexplained = seq.unexplained || held != seq.done;
  return held;
}

/// Prompt positions from `done` on are about to be computed: why they are not in the cache.
void Scheduler::explain(Sequence& seq) {
  if (!seq.unexplained || seq.counted >= seq.prompt_tokens) return;
  seq.unexplained = false;
  const bool shares = seq.spec.shares && seq.spec.prompt_rows == Outputs::none;
  const auto prompt = std::span<const TokenId>(seq.tokens).first(static_cast<std::size_t>(seq.prompt_tokens));
  seq.misses = shares ? groups_.explain(seq.tables, prompt, seq.done, seq.spec.salt) : kv::Misses{.disabled = true};
}

void Scheduler::plan_prefills(StepPlan& step) {
  prefills_.clear();
  for (Sequence* seq : running_) {
    if (seq->behind() == 0) continue;
    seq->drop_drafts();  // they did not fit; the token before them may
    if (!seq->in_flight()) {
      seq->done = seq->planned = match(*seq);
      seq->count_prompt(seq->done, seq->cached);
    }
    if (!waits_for_prefix(*seq)) prefills_.push_back(seq);
  }
  const int n = static_cast<int>(prefills_.size());
  const int budget = room_.tokens;
  int kept = 0;
  for (const Sequence* seq : prefills_) kept += kept_for(seq->behind(), budget, n);

  bool first = true;
  for (Sequence* seq : prefills_) {
    if (!seq->running) continue;  // preempted by an older one just now
    kept -= kept_for(seq->behind(), budget, n);
    int mine = seq->spec.whole ? room_.tokens : room_.tokens - kept;
    if (seq->next_has_rows()) mine = std::min(mine, room_.rows);
    const int run = seq->uniform_run();
    int count = seq->spec.whole ? run : chunk_tokens(seq->planned, run, mine, groups_.block_tokens());
    // One prefill moves in each step, even when a step is shorter than a block.
    if (count == 0 && first) count = std::min(run, mine);
    if (seq->spec.whole && count < seq->behind()) continue;
    if (count > 0 && place(*seq, count, step)) first = false;
  }
}

/// Puts the next `count` tokens into the step. When blocks run out, the last in rank gives way; when that is `seq`
/// itself it waits, and keeps what it has. False when it does not run in this step.
bool Scheduler::place(Sequence& seq, int count, StepPlan& step) {
  const bool draws = seq.spec.max_new > 0 && count == seq.behind();
  const Outputs outputs = seq.next_has_rows() ? seq.spec.prompt_rows
                          : !draws            ? Outputs::none
                          : seq.n_drafts > 0  ? Outputs::all
                                              : Outputs::last;
  const int rows = rows_of(outputs, count);
  if (count > room_.tokens || rows > room_.rows) return false;

  while (!groups_.prepare(seq.tables, seq.planned, seq.planned + count, step.copies)) {
    Sequence& victim = *running_.back();
    MILLRACE_CHECK(n_running() > 1, "sequence " + std::to_string(seq.id.value) + " does not fit an empty pool");
    if (&victim == &seq) return false;
    preempt(victim, step);
  }
  explain(seq);
  step.slices.push_back({seq.id, seq.planned, count, outputs, draws, seq.spec.whole, seq.spec.adapter,
                         draws ? seq.n_drafts : 0, seq.epoch});
  if (seq.next_has_rows()) seq.rows_asked = seq.planned + count;
  seq.planned += count;
  room_.tokens -= count;
  room_.rows -= rows;
  return true;
}

void Scheduler::preempt(Sequence& seq, StepPlan& step) {
  const auto mine = std::ranges::find(step.slices, seq.id, &Slice::seq);
  if (mine != step.slices.end()) {  // it was to run in this very step
    const bool prompt_rows = seq.spec.prompt_rows != Outputs::none && mine->outputs == seq.spec.prompt_rows &&
                             mine->first < seq.prompt_tokens;
    if (prompt_rows) seq.rows_asked = mine->first;
    room_.tokens += mine->count;
    room_.rows += rows_of(mine->outputs, mine->count);
    step.slices.erase(mine);
    std::erase_if(step.copies, [&](const kv::BlockCopy& copy) {
      const auto& blocks = seq.tables.groups[static_cast<std::size_t>(copy.group)].blocks;
      return std::ranges::find(blocks, copy.to) != blocks.end();
    });
  }
  give_up_cache(seq);
  ++seq.preemptions;
  seq.running = false;
  std::erase(running_, &seq);
  waiting_.insert(std::ranges::upper_bound(waiting_, seq.rank, runs_before, &Sequence::rank), &seq);
  step.preempted.push_back(seq.id);
}

void Scheduler::give_up_cache(Sequence& seq) {
  groups_.release(seq.tables);
  seq.drop_drafts();
  seq.done = seq.planned = 0;
  seq.fresh = 1;
  ++seq.epoch;
}

}  // namespace millrace::sched
