// Prefixes in flight, for any arrivals: a block that several need is computed once, nobody waits for ever, and what
// comes out does not change.

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

/// A prompt: the first `shared` tokens are those of its family, the rest its own.
std::vector<TokenId> prompt_of(int family, int shared, int length, int own) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < length; ++i) tokens.push_back(i < shared ? 1000 * family + i : 100000 + 1000 * own + i);
  return tokens;
}

struct Load {
  explicit Load(unsigned seed) : rng(seed) {}
  int pick(int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); }
  std::mt19937 rng;
};

/// How often each block of tokens was computed: by salt and the token that ends it (tokens name their prefix).
using Computed = std::map<std::tuple<std::uint64_t, TokenId, int>, int>;

TEST(PrefixInFlight, without_pressure_each_block_is_computed_once_300_seeds) {  // A16
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Load load(seed);
    const int block = 1 << load.pick(4), budget = 12 + block * (1 + load.pick(6)), depth = 1 + load.pick(2);
    kv::CacheGroups groups({{block, 0, 4000}}, 2 * budget);
    Scheduler sched({.step_tokens = budget, .step_outputs = 16, .max_running = 12}, groups);
    std::map<SeqId, std::pair<std::uint64_t, int>> live;  // salt, last position that may be shared
    Computed computed;
    std::deque<StepPlan> in_flight;
    int next = 0;
    for (int steps = 0; next < 30 || !live.empty() || !in_flight.empty(); ++steps) {
      ASSERT_LT(steps, 5000) << "somebody waits for ever";
      while (next < 30 && load.pick(2) == 0) {
        const int length = 1 + load.pick(150), shared = load.pick(length + 1);
        const auto salt = static_cast<std::uint64_t>(load.pick(2));
        ASSERT_TRUE(sched.add(
            {next},
            {.prompt = prompt_of(1 + load.pick(2), shared, length, next), .max_new = 1 + load.pick(5), .salt = salt}));
        live[{next++}] = {salt, length - 1};
      }
      StepPlan& step = in_flight.emplace_back();
      sched.plan(step);
      for (const Slice& s : step.slices)
        for (int b = (s.first + block - 1) / block; (b + 1) * block <= s.first + s.count; ++b) {
          const auto [salt, last] = live.at(s.seq);
          if ((b + 1) * block > last) continue;  // with the last token, which everybody computes
          const auto tokens = sched.tokens(s.seq);
          ++computed[{salt, tokens[static_cast<std::size_t>((b + 1) * block) - 1], b}];
        }
      while (!in_flight.empty() && (static_cast<int>(in_flight.size()) >= depth || live.empty())) {
        const StepPlan done = std::move(in_flight.front());
        in_flight.pop_front();
        const TokenId token = 7;
        std::vector<std::span<const TokenId>> accepted;
        for (const Slice& s : done.slices)
          accepted.push_back(s.draws && live.contains(s.seq) ? std::span(&token, 1) : std::span<const TokenId>());
        sched.commit(done, accepted);
        for (const Slice& s : done.slices)
          if (s.draws && live.contains(s.seq)) {
            sched.remove(s.seq);
            live.erase(s.seq);
          }
      }
      sched.check_invariants();
    }
    for (const auto& [what, times] : computed)
      ASSERT_EQ(times, 1) << "block " << std::get<2>(what) << " ending with " << std::get<1>(what);
  }
}

}  // namespace
}  // namespace millrace::sched
