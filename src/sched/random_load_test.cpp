// Random loads: whatever arrives, leaves, is rewound or forked, every promise of the scheduler holds.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

std::vector<TokenId> counting(int n, int from = 100) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

/// What a model would say next: a pure function of all tokens, over so few words that sequences meet again.
TokenId next_token(std::span<const TokenId> tokens) {
  std::uint32_t h = 2166136261u;
  for (const TokenId t : tokens) h = (h ^ static_cast<std::uint32_t>(t)) * 16777619u;
  return static_cast<TokenId>(h >> 16) % 3;
}

/// A cache that remembers which token was written where, to prove that tables lead to the right content.
class ShadowCache {
 public:
  ShadowCache(std::vector<kv::GroupSpec> specs, Scheduler& sched) : specs_(std::move(specs)), sched_(sched) {
    for (const auto& spec : specs_)
      slots_.emplace_back(static_cast<std::size_t>(spec.n_blocks * spec.block_tokens), -1);
  }

  void run(const StepPlan& step) {
    for (const auto& copy : step.copies)
      for (int i = 0; i < specs_[0].block_tokens; ++i) slot(copy.group, copy.to, i) = slot(copy.group, copy.from, i);
    for (const Slice& s : step.slices)
      for (int g = 0; g < static_cast<int>(specs_.size()); ++g)
        for (int p = s.first; p < s.first + s.count; ++p)
          at(s.seq, g, p) = sched_.tokens(s.seq)[static_cast<std::size_t>(p)];
    for (const Slice& s : step.slices)
      for (int g = 0; g < static_cast<int>(specs_.size()); ++g) {
        const int window = specs_[static_cast<std::size_t>(g)].window;
        for (int p = window == 0 ? 0 : std::max(0, s.first - window + 1); p < s.first + s.count; ++p)
          ASSERT_EQ(at(s.seq, g, p), sched_.tokens(s.seq)[static_cast<std::size_t>(p)])
              << "sequence " << s.seq.value << " group " << g << " position " << p;
      }
  }

 private:
  TokenId& slot(int group, BlockId id, int i) {
    const auto block = static_cast<std::size_t>(id.value) * static_cast<std::size_t>(specs_[0].block_tokens);
    return slots_[static_cast<std::size_t>(group)].at(block + static_cast<std::size_t>(i));
  }
  TokenId& at(SeqId id, int group, int position) {
    const int n = specs_[0].block_tokens;
    return slot(group, sched_.blocks(id, group)[static_cast<std::size_t>(position / n)], position % n);
  }

  std::vector<kv::GroupSpec> specs_;
  Scheduler& sched_;
  std::vector<std::vector<TokenId>> slots_;  // [group][block * block_tokens + offset]
};

/// One random load, driven to its end. Everything the scheduler promises is checked after each call.
class RandomLoad {
 public:
  explicit RandomLoad(unsigned seed)
      : rng_(seed),
        specs_(make_specs()),
        limits_(make_limits()),
        groups_(specs_, 2 * limits_.step_tokens),
        sched_(limits_, groups_),
        cache_(specs_, sched_),
        depth_(1 + pick(2)) {}

  void run() {
    for (int steps = 0; next_id_ < 40 || !live_.empty() || !in_flight_.empty(); ++steps) {
      ASSERT_LT(steps, 20000) << "no end";
      while (next_id_ < 40 && pick(2) == 0) arrive();
      disturb();
      const bool idle = in_flight_.empty();
      StepPlan& step = in_flight_.emplace_back();
      now_us_ += 1000 * pick(30);
      sched_.plan(step, now_us_);
      check(step);
      ASSERT_TRUE(!idle || live_.empty() || !step.slices.empty()) << "nothing moves";
      cache_.run(step);
      if (testing::Test::HasFatalFailure()) return;
      while (static_cast<int>(in_flight_.size()) >= depth_ || (live_.empty() && !in_flight_.empty())) commit();
      sched_.check_invariants();
    }
    for (int g = 0; g < groups_.n_groups(); ++g) {
      const auto& pool = groups_.pool(g);
      EXPECT_EQ(pool.n_used(), 0);
      EXPECT_EQ(pool.n_free() + pool.n_cached(), pool.n_blocks());
    }
  }
  int finished() const { return finished_; }

 private:
  struct Live {
    int prompt = 0, max_new = 0;
    Outputs rows = Outputs::none;
    int next_row = 0;
    int request = 0;  // the sequence that it was forked from, or itself
  };

  int pick(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }

  std::vector<kv::GroupSpec> make_specs() {
    const int block = 1 << pick(4), blocks = 3 + pick(14);
    std::vector<kv::GroupSpec> specs = {{block, 0, blocks}};
    if (pick(3) == 0) specs.push_back({block, 1 + pick(3 * block), 2 + pick(blocks)});
    return specs;
  }

  Limits make_limits() {
    const int running = 1 + pick(5);
    return {.step_tokens = running + pick(24),
            .step_outputs = running + pick(6),
            .max_running = running,
            .schedule = pick(3) ? Schedule::mixed : pick(2) ? Schedule::serial : Schedule::static_,
            .max_step_us = pick(2) ? 0 : 1000 * (5 + pick(40)),
            .max_wait_us = pick(2) ? 0 : 1000 * pick(1000)};
  }

  /// Lengths that hurt: one token, around a block, nearly the pool, beyond it.
  int adversarial_length() {
    const int block = specs_[0].block_tokens, room = sched_.admission().room_tokens;
    const int lengths[] = {1, block, block + 1, 2 * block - 1, room - 1 - pick(4), 1 + pick(room), room + 1};
    return std::max(lengths[pick(7)], 1);
  }

  void arrive() {
    const SeqId id{next_id_++};
    SequenceSpec spec;
    // Three families of prompts share prefixes.
    spec.prompt = counting(adversarial_length(), 1000 * (1 + pick(3)));
    spec.max_new = pick(8) == 0 ? sched_.admission().room_tokens : pick(20);
    spec.priority = pick(3);
    spec.arrival_us = now_us_;
    spec.tenant = pick(3);
    spec.tenant_weight = 1 + pick(3);
    if (pick(3) == 0) spec.ttft_slo_us = 1 + 1000 * pick(300);
    if (pick(3) == 0) spec.tpot_slo_us = 1 + 1000 * pick(50);
    spec.salt = pick(8) == 0;
    spec.shares = pick(8) != 0;
    if (pick(4) == 0) spec.prompt_rows = spec.max_new == 0 ? Outputs::hidden : Outputs::all;
    spec.whole = spec.max_new == 0 && pick(2) == 0;
    const Live live{static_cast<int>(spec.prompt.size()), spec.max_new, spec.prompt_rows, 0, id.value};
    const bool fits = sched_.admission().check(live.prompt, spec).ok();
    ASSERT_EQ(sched_.add(id, std::move(spec)).ok(), fits);
    if (fits) live_[id] = live;
  }

  /// Cancels, drafts, rewinds and forks, at any moment.
  void disturb() {
    for (auto at = live_.begin(); at != live_.end();) {
      const auto [id, live] = *at++;
      const int known = sched_.progress(id).accepted;
      if (pick(60) == 0) {
        sched_.remove(id);
        live_.erase(id);
      } else if (pick(30) == 0 && known > live.prompt && in_flight_.empty()) {
        sched_.rewind(id, live.prompt + pick(known - live.prompt) + (pick(2) && known > live.prompt + 1));
      } else if (pick(30) == 0 && known > live.prompt && next_id_ < 40 && in_flight_.empty()) {
        const SeqId child{next_id_++};
        sched_.fork(id, child, live.prompt + pick(known - live.prompt + 1), {});
        live_[child] = {live.prompt, live.max_new, Outputs::none, 0, live.request};
      }
    }
  }

  void check(const StepPlan& step) {
    int tokens = 0, rows = 0;
    for (const Slice& s : step.slices) {
      ASSERT_TRUE(live_.contains(s.seq));
      ASSERT_GT(s.count, 0);
      tokens += s.count;
      rows += rows_of(s.outputs, s.count);
      ASSERT_TRUE(!s.whole || (s.first == 0 && s.count == live_[s.seq].prompt));
    }
    ASSERT_LE(tokens, limits_.step_tokens);
    ASSERT_EQ(step.work.tokens, tokens);
    ASSERT_EQ(step.work.rows, rows);
    check_time(step);
    ASSERT_TRUE(limits_.schedule != Schedule::serial || n_started() <= 1);
    for (const SeqId id : step.preempted) ASSERT_LE(sched_.progress(id).preemptions, kMostPreemptions);
    ASSERT_LE(rows, limits_.step_outputs);
    ASSERT_LE(static_cast<int>(step.slices.size()), limits_.max_running);
  }

  /// More than the bound only where nothing less is possible: decodes, one block, a prompt that runs as a whole.
  void check_time(const StepPlan& step) {
    int prompts = 0;
    bool whole = false;
    for (const Slice& s : step.slices) prompts += !s.decode, whole = whole || s.whole;
    if (limits_.max_step_us == 0 || whole) return;
    StepWork work = step.work;
    work.rows = 0;  // rows of prompts that end are not planned for
    const bool over = sched_.cost().step_us(work) > static_cast<double>(limits_.max_step_us);
    ASSERT_TRUE(!over || (prompts <= 1 && work.prompt_tokens <= specs_[0].block_tokens));
  }

  int n_started() const {
    std::set<int> requests;  // forks belong to the request that they come from
    for (const auto& [id, live] : live_)
      if (!sched_.blocks(id, 0).empty()) requests.insert(live.request);
    return static_cast<int>(requests.size());
  }

  void commit() {
    const StepPlan step = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<std::vector<TokenId>> said(step.slices.size());
    std::vector<std::span<const TokenId>> accepted(step.slices.size());
    for (std::size_t i = 0; i < step.slices.size(); ++i) {
      const Slice& s = step.slices[i];
      const auto found = live_.find(s.seq);
      if (found == live_.end()) continue;
      Live& live = found->second;
      if (live.rows != Outputs::none && s.outputs == live.rows && s.first < live.prompt) {
        ASSERT_EQ(s.first, live.next_row) << "rows of sequence " << s.seq.value;  // each once, in order
        live.next_row += s.count;
      }
      if (!s.draws) continue;
      // Every known token before the slice's end stands; then what the model says, as far as drafts agree.
      const auto known = sched_.tokens(s.seq);
      std::vector<TokenId> tokens(known.begin(), known.begin() + (s.first + s.count - s.drafts));
      const auto most = static_cast<std::size_t>(live.prompt + live.max_new);
      for (int d = 0; d <= s.drafts && tokens.size() < most; ++d) {
        said[i].push_back(next_token(tokens));
        tokens.push_back(said[i].back());
        const auto next = static_cast<std::size_t>(s.first + s.count - s.drafts + d);
        if (next < known.size() && known[next] != said[i].back()) break;
      }
      accepted[i] = said[i];
    }
    now_us_ += 1000 * pick(30);
    sched_.commit(step, accepted, {.now_us = now_us_, .step_us = pick(50) ? 1000 + 100 * step.work.tokens : 1'000'000});
    for (const Slice& s : step.slices) finish_or_draft(s);
  }

  void finish_or_draft(const Slice& slice) {
    const auto found = live_.find(slice.seq);
    if (found == live_.end()) return;
    const Live live = found->second;
    const auto tokens = sched_.tokens(slice.seq);
    const int known = static_cast<int>(tokens.size());
    for (int p = live.prompt; p < known; ++p)  // whatever happened, the text is what it would be alone
      ASSERT_EQ(tokens[static_cast<std::size_t>(p)], next_token(tokens.first(static_cast<std::size_t>(p))));
    const bool through =
        live.max_new == 0 ? slice.first + slice.count == live.prompt : known == live.prompt + live.max_new;
    if (through) {
      const Progress progress = sched_.progress(slice.seq);
      ASSERT_EQ(progress.computed + progress.cached, live.prompt);  // A16
      ASSERT_EQ(std::accumulate(progress.causes.begin(), progress.causes.end(), 0), progress.computed);
      ASSERT_EQ(live.next_row, live.rows == Outputs::none ? 0 : live.prompt);
      sched_.remove(slice.seq);
      live_.erase(slice.seq);
      ++finished_;
    } else if (slice.draws && pick(4) == 0 && known + 2 < live.prompt + live.max_new && !planned(slice.seq)) {
      std::vector<TokenId> drafts = {next_token(tokens), pick(3)};
      sched_.propose(slice.seq, drafts);
    }
  }

  /// A draft needs a sequence that runs and is one behind.
  bool planned(SeqId id) const {
    for (const StepPlan& step : in_flight_) {
      if (std::ranges::find(step.slices, id, &Slice::seq) != step.slices.end()) return true;
      if (std::ranges::find(step.preempted, id) != step.preempted.end()) return true;
    }
    return false;
  }

  std::mt19937 rng_;
  std::vector<kv::GroupSpec> specs_;
  Limits limits_;
  kv::CacheGroups groups_;
  Scheduler sched_;
  ShadowCache cache_;
  int depth_;
  int next_id_ = 0, finished_ = 0;
  std::int64_t now_us_ = 0;
  std::map<SeqId, Live> live_;
  std::deque<StepPlan> in_flight_;
};

TEST(Scheduler,
     any_load_finishes_within_limits_with_no_block_lost_and_every_text_its_own_1000_seeds) {  // A21, B1, B4, P2, P16
  int finished = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomLoad load(seed);
    load.run();
    if (HasFailure()) return;
    finished += load.finished();
  }
  EXPECT_GT(finished, 10'000);  // the others were refused or cancelled
}

}  // namespace
}  // namespace millrace::sched
