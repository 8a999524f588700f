// Scheduler::plan: decodes, then who may join, then prefills. The choices within are in policy.h.

#include <algorithm>
#include <string>

#include "base/check.h"
#include "sched/scheduler.h"
#include "sched/share.h"

namespace millrace::sched {

void Scheduler::plan(StepPlan& step, std::int64_t now_us) {
  step.slices.clear();
  step.preempted.clear();
  step.copies.clear();
  step.work = {};
  step.held = Held::nothing;
  room_ = {limits_.step_tokens, limits_.step_outputs};
  now_us_ = std::max(now_us_, now_us);
  plan_decodes(step);
  if (step.preempted.empty()) {
    admit(step);
  } else {
    step.held = Held::blocks;  // what was just taken from one is not for another
  }
  plan_prefills(step);
  step.idle_slots = limits_.schedule == Schedule::static_ ? std::max(batch_slots_ - n_running(), 0) : 0;
  const int block = groups_.block_tokens();
  had_room_ = room_.tokens >= block && (bound_us_ == 0 || left_us(step) >= cost_.more_us(0, block));
}

void Scheduler::plan_decodes(StepPlan& step) {
  std::int64_t tpot_us = 0;
  for (std::size_t i = 0; i < running_.size(); ++i) {  // place() may shorten the line behind i
    Sequence& seq = *running_[i];
    if (!seq.is_decode()) continue;
    if (seq.behind() > room_.tokens || seq.behind() > room_.rows) seq.drop_drafts();
    if (!place(seq, seq.behind(), step)) continue;
    const std::int64_t wish = seq.spec.tpot_slo_us;
    if (wish > 0 && (tpot_us == 0 || wish < tpot_us)) tpot_us = wish;
  }
  step.decodes_us = step.work.tokens > 0 ? cost_.step_us(step.work) : 0;
  step.decodes_over_bound = limits_.max_step_us > 0 && step.decodes_us > static_cast<double>(limits_.max_step_us);
  bound_us_ = step_bound_us(limits_.max_step_us, tpot_us, step.decodes_us);
}

/// Time that the step may still be filled with. Never mind it when there is no bound.
double Scheduler::left_us(const StepPlan& step) const { return kAim * bound_us_ - cost_.step_us(step.work); }

Turn Scheduler::turn_of(const Sequence& seq) const {
  const double left = seq.due_us == kNever ? 0 : cost_.more_us(seq.planned, seq.behind());
  return {seq.rank.standing, seq.rank.priority, latest_start_us(seq.due_us, left), seq.tenant->served, seq.rank.arrival};
}

void Scheduler::promote() {
  for (Sequence* seq : waiting_)
    seq->rank.standing = std::max(seq->rank.standing, standing_of(seq->preemptions, now_us_ - seq->waiting_since_us, limits_.max_wait_us));
}

Sequence& Scheduler::next_in_line() const {
  return **std::ranges::min_element(waiting_, goes_before, [this](const Sequence* seq) { return turn_of(*seq); });
}

/// One after the other as their turns come: nobody overtakes whose turn it is.
void Scheduler::admit(StepPlan& step) {
  const int at_start = n_running();
  promote();
  while (!waiting_.empty() && step.held == Held::nothing) {
    if (!may_join(limits_.schedule, at_start, n_running())) {
      step.held = Held::schedule;
    } else {
      Sequence& next = next_in_line();
      if (n_running() == limits_.max_running && !make_way(next, step)) step.held = Held::slots;
      else if (!start(next)) step.held = Held::blocks;
    }
  }
  if (at_start == 0) batch_slots_ = n_running();
}

/// All slots are taken. One that runs gives way where its tenant holds more than its share and that of `next` less: the last in
/// rank. Its tenant keeps its share, so the slot does not go to and fro.
bool Scheduler::make_way(const Sequence& next, StepPlan& step) {
  const std::int64_t weights = tenants_.weights();
  const auto share = [&](const Tenant& tenant) { return share_of_slots(limits_.max_running, tenant.weight, weights); };
  if (limits_.schedule != Schedule::mixed || next.tenant->running >= share(*next.tenant)) return false;
  for (auto at = running_.rbegin(); at != running_.rend(); ++at) {
    Sequence& seq = **at;
    if (seq.rank.standing == Standing::sheltered || seq.tenant->running <= share(*seq.tenant)) continue;
    preempt(seq, step);
    --seq.preemptions;  // it gave a slot that was not its own: no reason to shelter it
    return true;
  }
  return false;
}

/// False when the blocks are not there.
bool Scheduler::start(Sequence& seq) {
  seq.done = seq.planned = match(seq);
  if (!fits(seq)) {
    MILLRACE_CHECK(!running_.empty(), "sequence " + std::to_string(seq.id.value) + " does not fit an empty pool");
    groups_.release(seq.tables);
    seq.done = seq.planned = 0;
    return false;
  }
  seq.count_prompt(seq.done, seq.cached);
  seq.running = true;
  ++seq.tenant->running;
  std::erase(waiting_, &seq);
  running_.insert(std::ranges::upper_bound(running_, seq.rank, runs_before, &Sequence::rank), &seq);
  return true;
}

/// Whether blocks are there for all known tokens, beside those that the running sequences' known tokens still need.
/// They are taken chunk by chunk, yet prefills that were admitted never push each other out.
bool Scheduler::fits(const Sequence& seq) const {
  if (seq.rank.standing == Standing::sheltered && !shelter_fits(seq)) return false;
  const int spare = spare_blocks(seq.preemptions > 0, n_running());
  for (int g = 0; g < groups_.n_groups(); ++g) {
    std::int64_t need = groups_.missing(seq.tables, g, seq.known()) + spare;
    for (const Sequence* other : running_) need += groups_.missing(other->tables, g, other->known());
    if (need > groups_.pool(g).available()) return false;
  }
  return true;
}

/// Whether an empty pool would hold the longest text of `seq` and of each sheltered sequence that runs.
bool Scheduler::shelter_fits(const Sequence& seq) const {
  for (int g = 0; g < groups_.n_groups(); ++g) {
    std::int64_t need = groups_.missing(no_tables_, g, seq.most());
    for (const Sequence* other : running_)
      if (other->rank.standing == Standing::sheltered) need += groups_.missing(no_tables_, g, other->most());
    if (need > groups_.pool(g).n_blocks()) return false;
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
  std::ranges::sort(prefills_, goes_before, [this](const Sequence* seq) { return turn_of(*seq); });
  const bool bounded = bound_us_ > 0;
  const int n = static_cast<int>(prefills_.size()), budget = room_.tokens;
  const double budget_us = left_us(step);
  const bool over = budget_us <= 0;
  // What is kept for the others, in tokens and in time.
  const auto share = [&](const Sequence& seq) {
    const int tokens = kept_for(seq.behind(), budget, n);
    const double us = bounded ? cost_.more_us(seq.planned, tokens) : 0;
    return bounded && us > budget_us / n ? Share{} : Share{tokens, us};
  };
  Share kept;
  for (const Sequence* seq : prefills_) kept += share(*seq);

  bool first = true;
  for (Sequence* seq : prefills_) {
    if (!seq->running) continue;  // preempted by an older one just now
    kept -= share(*seq);
    int mine = seq->spec.whole ? room_.tokens : room_.tokens - kept.tokens;
    if (seq->next_has_rows()) mine = std::min(mine, room_.rows);
    const int run = seq->uniform_run();
    const int in_time = bounded ? cost_.tokens_within(left_us(step) - kept.us, seq->planned, run) : run;
    // A whole prompt takes what it takes.
    int count = seq->spec.whole ? run : chunk_tokens(seq->planned, run, std::min(mine, in_time), groups_.block_tokens());
    // One prefill moves in each step, however short of tokens or of time it is.
    if (count == 0 && first) count = std::min({run, mine, least_tokens(seq->planned, groups_.block_tokens(), in_time, over)});
    if (seq->spec.whole && count < seq->behind()) continue;
    if (!seq->spec.whole) count = in_blocks(*seq, count);
    if (count > 0 && place(*seq, count, step)) first = false;
  }
}

/// As much of a prefill's `count` tokens as the blocks that are there hold, and a block's worth at least: for that another
/// one may have to give way, for more never several at once.
int Scheduler::in_blocks(const Sequence& seq, int count) const {
  const int block = groups_.block_tokens(), least = block - seq.planned % block;
  for (int g = 0; g < groups_.n_groups(); ++g)
    while (count > least && groups_.missing(seq.tables, g, seq.planned + count) > groups_.pool(g).available())
      count = (seq.planned + count - 1) / block * block - seq.planned;
  return count;
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
  const bool decode = seq.is_decode();
  explain(seq);
  step.slices.push_back({seq.id, seq.planned, count, outputs, draws, seq.spec.whole, seq.spec.adapter,
                         draws ? seq.n_drafts : 0, seq.epoch, decode});
  step.work.add(seq.planned, count, rows, decode);
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
    step.work.add(mine->first, mine->count, rows_of(mine->outputs, mine->count), mine->decode, -1);
    step.slices.erase(mine);
    std::erase_if(step.copies, [&](const kv::BlockCopy& copy) {
      const auto& blocks = seq.tables.groups[static_cast<std::size_t>(copy.group)].blocks;
      return std::ranges::find(blocks, copy.to) != blocks.end();
    });
  }
  give_up_cache(seq);
  ++seq.preemptions;
  seq.running = false;
  --seq.tenant->running;
  seq.waiting_since_us = now_us_;
  std::erase(running_, &seq);
  waiting_.push_back(&seq);
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
