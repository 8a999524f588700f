#pragma once

// Decides which tokens of which sequences run in the next step.
//
// There is no prefill phase and no decode phase: a sequence has known tokens, some of them are in the KV cache, and
// it is "behind" by the rest. One behind is a decode.
//
// Deterministic and single-threaded: the same calls give the same plans. It owns no tensors, no model and no clock,
// so a test drives it with integers.

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/cache_groups.h"
#include "sched/admission.h"
#include "sched/cache_state.h"
#include "sched/cost_model.h"
#include "sched/sequence.h"

namespace millrace::sched {

/// Run tokens [first, first + count) of `seq`.
struct Slice {
  SeqId seq;
  int first = 0;
  int count = 0;
  Outputs outputs = Outputs::none;
  bool draws = false;  // the slice ends at the last known token: its row says what follows
  bool whole = false;
  int adapter = 0;
  int drafts = 0;  // that many of its last tokens are proposals, to be accepted or not
  int epoch = 0;   // of the sequence, when the slice was planned
  bool decode = false;
};

/// Why sequences wait that do not run.
enum class Held : std::uint8_t {
  nothing,
  slots,     // max_running sequences run
  schedule,  // serial or static: others are not through
  blocks,    // the KV cache is full
};

struct StepPlan {
  std::vector<Slice> slices;          // decodes first, oldest first; then prefills as their turns come
  std::vector<SeqId> preempted;       // lost their blocks in this step; will run again later
  std::vector<kv::BlockCopy> copies;  // to do before the step runs

  StepWork work;
  double decodes_us = 0;            // what its decodes were expected to take alone
  bool decodes_over_bound = false;  // and that this is more than a step may take
  Held held = Held::nothing;        // what keeps the next one in line from running
  int idle_slots = 0;               // static: members of the batch that have ended
};

/// When a step ended and how long it ran. Zeros: nobody measured, and nothing is learned.
struct StepTimes {
  std::int64_t now_us = 0, step_us = 0;
};

/// What a sequence has cost so far. computed + cached == prompt tokens once the prompt is through, preempted or not.
struct Progress {
  int computed = 0, cached = 0;  // prompt tokens
  kv::MissCounts causes{};       // of the computed ones
  int diverged_at = -1;          // the position where the prompt left what is known, if it did
  TokenId known = -1;            // and what stands there in the nearest that is known
  int preemptions = 0;
  int accepted = 0;  // prompt and generated tokens, without drafts
};

class Scheduler {
 public:
  /// `groups` outlives the scheduler. Others may look and, between two steps, keep() and touch() cached blocks; nobody
  /// else holds any.
  Scheduler(Limits limits, kv::CacheGroups& groups);

  const Admission& admission() const { return admission_; }

  /// Errors: those of Admission::check.
  Result<void> add(SeqId id, SequenceSpec spec);

  /// The sequence is finished or cancelled: its blocks are free at once, also while a step of it runs (steps of one
  /// lane run in order, so a new owner writes later). Unknown ids are ignored.
  void remove(SeqId id);

  /// The next step into `step`, whose memory is used again. May be called again before the commit of the step before
  /// (one step runs, one more waits). Empty only when nothing can run that is not in flight already.
  /// `now_us` never goes back; without it nobody is late.
  void plan(StepPlan& step, std::int64_t now_us = 0);

  /// The step ran; steps are committed in the order of their plans. accepted[i]: the tokens that follow slice i, for
  /// slices that draw; none, one or more. With drafts, those that agree stay in the cache.
  void commit(const StepPlan& step, std::span<const std::span<const TokenId>> accepted, StepTimes times = {});

  /// A step that belongs to no sequence took `us`: calibration.
  void learn(const StepWork& work, double us) { cost_.observe(work, us); }
  const CostModel& cost() const { return cost_; }

  /// Adds tokens that may follow, to be verified by the next step. The sequence is one behind.
  void propose(SeqId id, std::span<const TokenId> drafts);

  /// Forgets accepted tokens from position `tokens` on; at least the prompt stays. What is in flight is void.
  void rewind(SeqId id, int tokens);

  /// A new sequence: the first `keep` tokens of `parent`, then `own`. Shares the parent's blocks, and copies one when
  /// either writes to it. Admission holds for it as for the parent.
  void fork(SeqId parent, SeqId child, int keep, std::span<const TokenId> own);

  /// Prompt and accepted tokens so far, then drafts; and the blocks that hold them. Valid until the next call that
  /// changes something.
  std::span<const TokenId> tokens(SeqId id) const { return at(id).tokens; }
  std::span<const BlockId> blocks(SeqId id, int group) const;
  Progress progress(SeqId id) const;

  int n_running() const { return static_cast<int>(running_.size()); }
  int n_waiting() const { return static_cast<int>(waiting_.size()); }

  /// O(blocks): for whoever looks into the cache, not for each step.
  CacheState cache_state() const;

  /// CHECKs that every block is accounted for. O(blocks); for tests.
  void check_invariants() const;

 private:
  struct Room {
    int tokens = 0, rows = 0;
  };  // left in the step that is being planned
  struct Share {
    int tokens = 0;
    double us = 0;
    void operator+=(const Share& other) { tokens += other.tokens, us += other.us; }
    void operator-=(const Share& other) { tokens -= other.tokens, us -= other.us; }
  };  // of it

  const Sequence& at(SeqId id) const;
  Sequence& at(SeqId id) { return const_cast<Sequence&>(std::as_const(*this).at(id)); }
  void plan_decodes(StepPlan& step);
  void plan_prefills(StepPlan& step);
  void promote();
  void admit(StepPlan& step);
  Sequence& next_in_line() const;
  bool make_way(const Sequence& next, StepPlan& step);
  bool start(Sequence& seq);
  bool fits(const Sequence& seq) const;
  bool shelter_fits(const Sequence& seq) const;
  Turn turn_of(const Sequence& seq) const;
  double left_us(const StepPlan& step) const;
  int match(Sequence& seq);
  void explain(Sequence& seq);
  bool waits_for_prefix(Sequence& seq) const;
  const Sequence* who_computes_next_block(const Sequence& seq) const;
  int in_blocks(const Sequence& seq, int count) const;
  bool place(Sequence& seq, int count, StepPlan& step);
  void preempt(Sequence& seq, StepPlan& step);
  void give_up_cache(Sequence& seq);
  static int accept(Sequence& seq, const Slice& slice, std::span<const TokenId> accepted);

  Limits limits_;
  kv::CacheGroups& groups_;
  Admission admission_;
  std::unordered_map<SeqId, std::unique_ptr<Sequence>> seqs_;
  std::vector<Sequence*> waiting_;   // in no order: whose turn it is depends on the moment
  std::vector<Sequence*> running_;   // by rank
  std::vector<Sequence*> prefills_;  // scratch of plan
  const kv::BlockTables no_tables_;
  Tenants tenants_;
  CostModel cost_;
  Room room_;
  double bound_us_ = 0;      // of the step that is being planned; 0 = none
  std::int64_t now_us_ = 0;  // of the last plan
  int batch_slots_ = 0;      // static: sequences that the batch began with
  bool had_room_ = false;  // the last step, for a block more
  std::int64_t arrivals_ = 0;
};

}  // namespace millrace::sched
