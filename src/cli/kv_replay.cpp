#include "cli/kv_replay.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/clock.h"
#include "sched/scheduler.h"

namespace millrace::cli {
namespace {

/// Sums over steps, kept apart for those in which work waits.
class Mean {
 public:
  void add(double live, double reserved, double pool, bool waiting) {
    for (Sum* sum : {&all_, waiting ? &waiting_ : nullptr}) {
      if (!sum || reserved <= 0) continue;
      sum->utilisation += live / reserved;
      sum->pool += live / pool;
      ++sum->n;
    }
  }
  void put(KvUse& use) const {
    const Sum& sum = waiting_.n > 0 ? waiting_ : all_;
    use.utilisation = sum.utilisation / std::max(sum.n, 1);
    use.pool_utilisation = sum.pool / std::max(sum.n, 1);
    use.steps = all_.n, use.steps_waiting = waiting_.n;
  }

 private:
  struct Sum { double utilisation = 0, pool = 0; int n = 0; };
  Sum all_, waiting_;
};

/// The next token of a text: no two texts go on alike.
TokenId next_token(int request, int position) {
  return static_cast<TokenId>((static_cast<unsigned>(request) * 2654435761u + static_cast<unsigned>(position) * 40503u) % kReplayVocab);
}

}  // namespace

KvUse replay_paged(const std::vector<TraceRequest>& trace, const std::vector<std::vector<TokenId>>& prompts, const KvReplayOptions& o) {
  KvUse use;
  Mean mean;
  const int blocks = o.pool_tokens / o.block_tokens;
  kv::CacheGroups groups({{o.block_tokens, 0, blocks}}, 2 * o.step_tokens);
  sched::Scheduler scheduler({.step_tokens = o.step_tokens, .step_outputs = o.max_running, .max_running = o.max_running}, groups);
  std::int64_t cached = 0, prompt_tokens = 0, host_us = 0;
  std::size_t next = 0;
  int open = 0;
  sched::StepPlan step;
  std::vector<TokenId> drawn;
  std::vector<std::span<const TokenId>> accepted;
  for (double now = 0; next < trace.size() || open > 0; now += o.step_s) {
    if (open == 0) now = std::max(now, trace[next].arrival_s / o.speed);
    for (; next < trace.size() && trace[next].arrival_s / o.speed <= now; ++next) {
      const SeqId id{static_cast<std::int32_t>(next)};
      (scheduler.add(id, {.prompt = prompts[next], .max_new = trace[next].new_tokens}) ? open : use.failures) += 1;
    }
    if (open == 0) continue;

    const Microseconds planned_us = now_us();
    scheduler.plan(step);
    host_us += now_us() - planned_us;
    use.preemptions += static_cast<int>(step.preempted.size());
    drawn.assign(step.slices.size(), 0);
    accepted.assign(step.slices.size(), {});
    for (std::size_t i = 0; i < step.slices.size(); ++i) {
      const sched::Slice& slice = step.slices[i];
      if (!slice.draws) continue;
      drawn[i] = next_token(slice.seq.value, slice.first + slice.count);
      accepted[i] = std::span(&drawn[i], 1);
    }
    const Microseconds committed_us = now_us();
    scheduler.commit(step, accepted);
    host_us += now_us() - committed_us;

    const sched::CacheState state = scheduler.cache_state();
    const sched::PoolState& pool = state.pools[0];
    mean.add(pool.live_tokens, double{1} * pool.used * o.block_tokens, double{1} * blocks * o.block_tokens, scheduler.n_waiting() > 0);
    if (static_cast<int>(step.slices.size()) > use.max_batch) {
      use.max_batch = static_cast<int>(step.slices.size());
      use.fullest = state;
    }
    for (const sched::Slice& slice : step.slices) {
      const auto request = static_cast<std::size_t>(slice.seq.value);
      const sched::Progress progress = scheduler.progress(slice.seq);
      if (progress.accepted < trace[request].prompt_tokens + trace[request].new_tokens) continue;
      cached += progress.cached;
      prompt_tokens += trace[request].prompt_tokens;
      scheduler.remove(slice.seq);
      --open;
    }
  }
  mean.put(use);
  use.prefix_hit_rate = prompt_tokens > 0 ? static_cast<double>(cached) / static_cast<double>(prompt_tokens) : 0;
  use.host_us = static_cast<double>(host_us) / std::max(use.steps, 1);
  return use;
}

namespace {

/// One piece of memory per sequence, each found by first fit.
class Pieces {
 public:
  explicit Pieces(int slots) : slots_(slots) {}

  /// Where the piece begins; -1 when no hole is large enough.
  int take(int size) {
    int at = 0;
    auto before = taken_.begin();
    for (; before != taken_.end(); ++before) {
      if (before->first - at >= size) break;
      at = before->first + before->second;
    }
    if (slots_ - at < size) return -1;
    taken_.insert(before, {at, size});
    return at;
  }
  void give(int at) {
    std::erase_if(taken_, [at](const auto& piece) { return piece.first == at; });
  }

 private:
  int slots_;
  std::vector<std::pair<int, int>> taken_;  // first slot, slots; ascending
};

struct Piecewise {
  int at = 0, reserved = 0;
  int prompt = 0, more = 0;  // tokens still to draw
  int done = 0;
};

}  // namespace

KvUse replay_contiguous(const std::vector<TraceRequest>& trace, Reserve reserve, const KvReplayOptions& o) {
  KvUse use;
  Mean mean;
  int longest_answer = 0, longest = 0;
  for (const TraceRequest& r : trace) {
    longest_answer = std::max(longest_answer, r.new_tokens);
    longest = std::max(longest, r.prompt_tokens + r.new_tokens);
  }
  Pieces pieces(o.pool_tokens);
  std::deque<const TraceRequest*> waiting;
  std::vector<Piecewise> running;
  std::size_t next = 0;
  for (double now = 0; next < trace.size() || !waiting.empty() || !running.empty(); now += o.step_s) {
    if (waiting.empty() && running.empty()) now = std::max(now, trace[next].arrival_s / o.speed);
    for (; next < trace.size() && trace[next].arrival_s / o.speed <= now; ++next) waiting.push_back(&trace[next]);
    while (!waiting.empty() && static_cast<int>(running.size()) < o.max_running) {
      const TraceRequest& r = *waiting.front();
      const int size = reserve == Reserve::context  ? longest
                       : reserve == Reserve::answer ? r.prompt_tokens + longest_answer
                                                    : r.prompt_tokens + r.new_tokens;
      const int at = pieces.take(size);
      if (at < 0 && size <= o.pool_tokens) break;
      if (at < 0) ++use.failures;
      else running.push_back({at, size, r.prompt_tokens, r.new_tokens, 0});
      waiting.pop_front();
    }
    if (running.empty()) continue;

    // Decodes first, then prompts in order of arrival: as ours.
    int room = o.step_tokens, batch = 0;
    for (const bool decodes : {true, false})
      for (Piecewise& s : running) {
        if ((s.done >= s.prompt) != decodes || s.more == 0 || room == 0) continue;
        const int count = decodes ? 1 : std::min(s.prompt - s.done, room);
        s.done += count, room -= count, ++batch;
        if (s.done >= s.prompt) --s.more;
      }
    double live = 0, reserved = 0;
    for (const Piecewise& s : running) live += s.done, reserved += s.reserved;
    mean.add(live, reserved, o.pool_tokens, !waiting.empty());
    use.max_batch = std::max(use.max_batch, batch);
    for (const Piecewise& s : running)
      if (s.more == 0) pieces.give(s.at);
    std::erase_if(running, [](const Piecewise& s) { return s.more == 0; });
  }
  mean.put(use);
  return use;
}

}  // namespace millrace::cli
