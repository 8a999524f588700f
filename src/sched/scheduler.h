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
};

struct StepPlan {
  std::vector<Slice> slices;          // decodes first, then prefills; each oldest first
  std::vector<SeqId> preempted;       // lost their blocks in this step; will run again later
  std::vector<kv::BlockCopy> copies;  // to do before the step runs
};

/// What a sequence has cost so far. computed + cached == prompt tokens once the prompt is through, preempted or not.
struct Progress {
  int computed = 0, cached = 0;  // prompt tokens
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
  void plan(StepPlan& step);

  /// The step ran; steps are committed in the order of their plans. accepted[i]: the tokens that follow slice i, for
  /// slices that draw; none, one or more. With drafts, those that agree stay in the cache.
  void commit(const StepPlan& step, std::span<const std::span<const TokenId>> accepted);

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

  /// CHECKs that every block is accounted for. O(blocks); for tests.
  void check_invariants() const;

 private:
  struct Room {
    int tokens = 0, rows = 0;
  };  // left in the step that is being planned

  const Sequence& at(SeqId id) const;
  Sequence& at(SeqId id) { return const_cast<Sequence&>(std::as_const(*this).at(id)); }
  void plan_decodes(StepPlan& step);
  void plan_prefills(StepPlan& step);
  void admit();
  bool fits(const Sequence& seq) const;
  int match(Sequence& seq);
  bool place(Sequence& seq, int count, StepPlan& step);
  void preempt(Sequence& seq, StepPlan& step);
  void give_up_cache(Sequence& seq);
  static int accept(Sequence& seq, const Slice& slice, std::span<const TokenId> accepted);

  Limits limits_;
  kv::CacheGroups& groups_;
  Admission admission_;
  std::unordered_map<SeqId, std::unique_ptr<Sequence>> seqs_;
  std::vector<Sequence*> waiting_;   // by rank
  std::vector<Sequence*> running_;   // by rank
  std::vector<Sequence*> prefills_;  // scratch of plan
  Room room_;
  std::int64_t arrivals_ = 0;
};

}  // namespace millrace::sched
