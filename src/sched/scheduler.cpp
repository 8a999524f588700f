#include "sched/scheduler.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"

namespace millrace::sched {
Scheduler::Scheduler(Limits limits, kv::CacheGroups& groups)
    : limits_(limits), groups_(groups), no_tables_(groups.make_tables()) {
  MILLRACE_CHECK(limits.max_running >= 1, "max_running must be positive");
  // Then a step that has a prefill to run has a token and a row left for it beside all decodes.
  MILLRACE_CHECK(limits.step_tokens >= limits.max_running, "a step must hold a token of each running sequence");
  MILLRACE_CHECK(limits.step_outputs >= limits.max_running, "a step must return a row of each running sequence");
  admission_ = {limits, groups.most_tokens()};
}

Result<void> Scheduler::add(SeqId id, SequenceSpec spec) {
  MILLRACE_CHECK(!spec.prompt.empty() && spec.max_new >= 0, "an empty prompt or a negative count is refused before");
  MILLRACE_CHECK(spec.prompt_rows != Outputs::last, "prompt rows are none, all or hidden");
  MILLRACE_CHECK(spec.tenant_weight >= 1 && spec.ttft_slo_us >= 0 && spec.tpot_slo_us >= 0, "a weight is positive, a wish not negative");
  MILLRACE_TRY_VOID(admission_.check(std::ssize(spec.prompt), spec));
  auto seq = std::make_unique<Sequence>();
  seq->id = id;
  seq->rank = {.priority = spec.priority, .arrival = arrivals_++};
  seq->tenant = tenants_.join(spec.tenant, spec.tenant_weight);
  seq->due_us = spec.ttft_slo_us > 0 ? spec.arrival_us + spec.ttft_slo_us : kNever;
  seq->waiting_since_us = spec.arrival_us;
  seq->prompt_tokens = static_cast<int>(spec.prompt.size());
  const int most = seq->prompt_tokens + spec.max_new;
  seq->tokens = std::move(spec.prompt);
  seq->tokens.reserve(static_cast<std::size_t>(most));  // decoding then never allocates
  // A bidirectional prompt's keys depend on what follows them: they have no use for another sequence.
  spec.shares = spec.shares && !spec.whole;
  seq->spec = std::move(spec);
  seq->tables = groups_.make_tables(most);
  waiting_.push_back(seq.get());
  const bool is_new = seqs_.emplace(id, std::move(seq)).second;
  MILLRACE_CHECK(is_new, "sequence " + std::to_string(id.value) + " was added twice");
  return {};
}

void Scheduler::remove(SeqId id) {
  const auto found = seqs_.find(id);
  if (found == seqs_.end()) return;
  Sequence* seq = found->second.get();
  groups_.release(seq->tables);
  tenants_.leave(seq->tenant);
  if (seq->running) --seq->tenant->running;
  std::erase(seq->running ? running_ : waiting_, seq);
  seqs_.erase(found);
}

void Scheduler::commit(const StepPlan& step, std::span<const std::span<const TokenId>> accepted, StepTimes times) {
  MILLRACE_CHECK(accepted.size() == step.slices.size(), "commit needs the accepted tokens of each slice");
  if (times.step_us > 0 && step.work.tokens > 0) cost_.observe(step.work, static_cast<double>(times.step_us));
  for (std::size_t i = 0; i < step.slices.size(); ++i) {
    const Slice& slice = step.slices[i];
    const auto found = seqs_.find(slice.seq);
    if (found == seqs_.end()) continue;  // removed while the step ran
    Sequence& seq = *found->second;
    const int end = slice.first + slice.count;
    const int computed_before = seq.computed;
    seq.count_computed(end);
    seq.tenant->served += charge(seq.computed - computed_before, static_cast<int>(accepted[i].size()), seq.spec.tenant_weight);
    if (slice.draws) seq.due_us = seq.spec.tpot_slo_us > 0 ? times.now_us + seq.spec.tpot_slo_us : kNever;
    // A row of a preempted sequence is as good as any; one from before a rewind is not.
    const bool counts = slice.draws && end - slice.drafts == seq.accepted();
    const int disproved = counts ? accept(seq, slice, accepted[i]) : slice.drafts;
    if (slice.epoch != seq.epoch) continue;  // its part of the cache is gone
    seq.done = end - disproved;
    if (slice.drafts > 0) seq.planned = seq.done;
    seq.fresh = slice.draws ? std::max(seq.behind(), 1) : 1;
    if (seq.spec.shares) groups_.publish(seq.tables, seq.tokens, std::min(seq.done, seq.accepted()), seq.spec.salt);
    groups_.slide(seq.tables, seq.done);
  }
}

/// Returns how many of the slice's drafts did not come true.
int Scheduler::accept(Sequence& seq, const Slice& slice, std::span<const TokenId> accepted) {
  const auto drafts = std::span(seq.tokens).last(static_cast<std::size_t>(seq.n_drafts));
  std::size_t agreed = 0;
  while (agreed < drafts.size() && agreed < accepted.size() && drafts[agreed] == accepted[agreed]) ++agreed;
  seq.drop_drafts();
  seq.tokens.insert(seq.tokens.end(), accepted.begin(), accepted.end());
  MILLRACE_CHECK(seq.known() <= seq.most(),
                 "sequence " + std::to_string(seq.id.value) + " has more tokens than were admitted");
  return slice.drafts - static_cast<int>(agreed);
}

void Scheduler::propose(SeqId id, std::span<const TokenId> drafts) {
  Sequence& seq = at(id);
  MILLRACE_CHECK(seq.behind() == 1 && seq.n_drafts == 0 && seq.known() > seq.prompt_tokens,
                 "drafts follow the last known token of a decode");
  // The token after the drafts is drawn too.
  MILLRACE_CHECK(seq.known() + static_cast<int>(drafts.size()) < seq.prompt_tokens + seq.spec.max_new,
                 "more drafts than tokens may follow");
  seq.tokens.insert(seq.tokens.end(), drafts.begin(), drafts.end());
  seq.n_drafts = static_cast<int>(drafts.size());
  seq.fresh = seq.behind();
}

void Scheduler::rewind(SeqId id, int tokens) {
  Sequence& seq = at(id);
  seq.drop_drafts();
  MILLRACE_CHECK(tokens >= seq.prompt_tokens && tokens <= seq.known(), "rewind outside of the generated tokens");
  seq.tokens.resize(static_cast<std::size_t>(tokens));
  // The last token's row is needed again.
  seq.done = groups_.rewind(seq.tables, std::min(seq.done, tokens - 1));
  seq.planned = seq.done;
  seq.fresh = 1;
  ++seq.epoch;
}

void Scheduler::fork(SeqId parent_id, SeqId child_id, int keep, std::span<const TokenId> own) {
  const Sequence& parent = at(parent_id);
  MILLRACE_CHECK(keep >= parent.prompt_tokens && keep <= parent.accepted(), "a fork keeps at least the prompt");
  MILLRACE_CHECK(keep + static_cast<int>(own.size()) <= parent.prompt_tokens + parent.spec.max_new,
                 "a fork has more tokens than were admitted");
  const int most = parent.prompt_tokens + parent.spec.max_new;
  auto child = std::make_unique<Sequence>(parent);
  child->tokens.reserve(static_cast<std::size_t>(most));  // as in add()
  child->id = child_id;
  child->rank = {.priority = parent.rank.priority, .arrival = arrivals_++};
  child->tenant = tenants_.join(parent.spec.tenant, parent.spec.tenant_weight);
  child->waiting_since_us = now_us_;
  child->drop_drafts();
  child->tokens.resize(static_cast<std::size_t>(keep));
  child->tokens.insert(child->tokens.end(), own.begin(), own.end());
  child->rows_asked = child->prompt_tokens;  // they were the parent's
  child->preemptions = child->computed = child->cached = child->counted = 0;
  child->causes = {};
  child->misses = {};
  child->unexplained = true;
  child->running = parent.running && n_running() < limits_.max_running;
  child->done = child->planned = 0;
  if (child->running) {
    ++child->tenant->running;
    child->tables = groups_.fork(parent.tables, most);
    child->done = groups_.rewind(child->tables, std::min({parent.done, keep, child->known() - 1}));
    child->planned = child->done;
    child->count_prompt(child->done, child->cached);
  } else {
    child->tables = groups_.make_tables(most);
  }
  child->fresh = std::max(child->behind(), 1);
  auto& list = child->running ? running_ : waiting_;
  list.insert(child->running ? std::ranges::upper_bound(list, child->rank, runs_before, &Sequence::rank) : list.end(), child.get());
  const bool is_new = seqs_.emplace(child_id, std::move(child)).second;
  MILLRACE_CHECK(is_new, "sequence " + std::to_string(child_id.value) + " was added twice");
}

std::span<const BlockId> Scheduler::blocks(SeqId id, int group) const {
  return at(id).tables.groups[static_cast<std::size_t>(group)].blocks;
}

Progress Scheduler::progress(SeqId id) const {
  const Sequence& seq = at(id);
  const bool diverged = seq.misses.diverged && seq.misses.new_from < seq.counted;
  return {.computed = seq.computed,
          .cached = seq.cached,
          .causes = seq.causes,
          .diverged_at = diverged ? seq.misses.new_from : -1,
          .known = diverged ? seq.misses.known : -1,
          .preemptions = seq.preemptions,
          .accepted = seq.accepted()};
}

const Sequence& Scheduler::at(SeqId id) const {
  const auto found = seqs_.find(id);
  MILLRACE_CHECK(found != seqs_.end(), "no sequence " + std::to_string(id.value));
  return *found->second;
}

void Scheduler::check_invariants() const {
  std::vector<const kv::BlockTables*> tables;
  for (const auto& [id, seq] : seqs_) tables.push_back(&seq->tables);
  groups_.check_invariants(tables);
  MILLRACE_CHECK(running_.size() + waiting_.size() == seqs_.size(), "a sequence is in no line");
  MILLRACE_CHECK(std::ranges::is_sorted(running_, runs_before, &Sequence::rank), "running sequences are out of order");
  for (const auto* line : {&running_, &waiting_}) {
    for (const Sequence* seq : *line) {
      MILLRACE_CHECK(seq->running == (line == &running_), "a sequence stands in the wrong line");
      const auto running = std::ranges::count_if(running_, [&](const Sequence* other) { return other->tenant == seq->tenant; });
      MILLRACE_CHECK(running == seq->tenant->running, "a tenant's running sequences are miscounted");
      MILLRACE_CHECK(seq->done <= seq->planned && seq->planned <= seq->known(), "a sequence is ahead of itself");
      for (const auto& group : seq->tables.groups)
        MILLRACE_CHECK(seq->running || group.blocks.empty(), "a waiting sequence holds blocks");
    }
  }
}

}  // namespace millrace::sched
