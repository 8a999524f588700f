// Who is served when more wants to run than can: fair shares, bounded waiting, deadlines. Policy by policy as pure
// functions in order.h and as stories in tests/scenarios; here what has to hold for any load.

#include "sched/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

constexpr std::int64_t kStepUs = 10'000;

/// Every step takes kStepUs; a request ends when all its tokens are drawn.
class Server {
 public:
  explicit Server(Limits limits, int blocks = 4096) : groups_({{4, 0, blocks}}, 2 * limits.step_tokens), sched_(limits, groups_) {}

  int add(int prompt, SequenceSpec spec) {
    const int id = next_id_++;
    spec.prompt.resize(static_cast<std::size_t>(prompt));
    for (std::size_t i = 0; i < spec.prompt.size(); ++i) spec.prompt[i] = id * 1000 + static_cast<int>(i);
    spec.arrival_us = now_us_;
    left_[id] = spec.max_new;
    EXPECT_TRUE(sched_.add({id}, std::move(spec)));
    return id;
  }

  void step() {
    sched_.plan(step_, now_us_);
    if (groups_.pool(0).n_blocks() < 100) sched_.check_invariants();  // O(blocks)
    now_us_ += kStepUs;
    const TokenId token = 5;
    accepted_.assign(step_.slices.size(), {});
    for (std::size_t i = 0; i < step_.slices.size(); ++i) {
      const Slice& slice = step_.slices[i];
      started_us_.try_emplace(slice.seq.value, now_us_ - kStepUs);
      if (slice.draws) accepted_[i] = std::span(&token, 1);
      if (slice.draws) first_token_us_.try_emplace(slice.seq.value, now_us_);
    }
    sched_.commit(step_, accepted_, {.now_us = now_us_, .step_us = 0});
    for (const Slice& slice : step_.slices)
      if (slice.draws && --left_[slice.seq.value] == 0) sched_.remove(slice.seq);
  }

  Scheduler& sched() { return sched_; }
  const StepPlan& last() const { return step_; }
  std::int64_t now_us() const { return now_us_; }
  std::map<int, std::int64_t> started_us_, first_token_us_;

 private:
  kv::CacheGroups groups_;
  Scheduler sched_;
  StepPlan step_;
  std::vector<std::span<const TokenId>> accepted_;
  std::map<int, int> left_;
  std::int64_t now_us_ = 0;
  int next_id_ = 0;
};

TEST(Order, tenants_that_always_want_more_get_tokens_by_their_weights_50_seeds) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
    Server server({.step_tokens = 32, .step_outputs = 8, .max_running = 4});
    const int weights[] = {1, 2, 4};
    std::map<int, int> tenant_of, waiting;
    double served[3] = {};
    for (int i = 0; i < 3000; ++i) {
      for (int tenant = 0; tenant < 3; ++tenant)
        for (; waiting[tenant] < 3 + 5 * tenant; ++waiting[tenant])  // who asks for more does not get more
          tenant_of[server.add(1 + pick(60), {.max_new = 1 + pick(20), .tenant = tenant, .tenant_weight = weights[tenant]})] = tenant;
      server.step();
      for (const Slice& slice : server.last().slices) {
        const int tenant = tenant_of[slice.seq.value];
        if (server.started_us_[slice.seq.value] == server.now_us() - kStepUs) --waiting[tenant];
        if (i >= 500) served[tenant] += (slice.decode ? 0 : slice.count) + (slice.draws ? 2 : 0);
      }
    }
    for (int tenant = 1; tenant < 3; ++tenant) EXPECT_NEAR(served[tenant] / weights[tenant] / served[0], 1, 0.15) << "tenant " << tenant;
  }
}

TEST(Order, nobody_waits_much_longer_than_the_limit_however_high_the_others_rank_50_seeds) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
    constexpr std::int64_t kMaxWait = 2'000'000;
    Server server({.step_tokens = 32, .step_outputs = 8, .max_running = 2, .max_wait_us = kMaxWait}, /*blocks=*/20);
    std::map<int, std::int64_t> low;
    for (int i = 0; i < 2000; ++i) {
      while (server.sched().n_waiting() < 4) server.add(1 + pick(30), {.max_new = 1 + pick(20), .priority = 5, .ttft_slo_us = pick(2) * 1000});
      if (i % 100 == 0) low[server.add(1 + pick(30), {.max_new = 1 + pick(20), .priority = pick(3)})] = server.now_us();
      server.step();
    }
    for (const auto& [id, arrived_us] : low) {
      if (arrived_us + 2 * kMaxWait > server.now_us()) continue;
      ASSERT_TRUE(server.started_us_.contains(id)) << "sequence " << id;
      // Those that run have to end first, and those that starve longer to start.
      EXPECT_LE(server.started_us_[id] - arrived_us, kMaxWait + 100 * kStepUs) << "sequence " << id;
    }
  }
}

TEST(Order, nobody_is_preempted_a_fourth_time_although_each_wants_the_whole_pool_25_seeds) {
  int sheltered = 0;
  for (unsigned seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
    const int blocks = 6 + pick(10), running = 2 + pick(6);
    Server server({.step_tokens = 8 + pick(16), .step_outputs = 8, .max_running = running}, blocks);
    std::map<int, int> most;
    for (int i = 0; i < 250 || server.sched().n_running() + server.sched().n_waiting() > 0; ++i) {
      ASSERT_LT(i, 10'000) << "no end";
      // Higher priorities come in waves, short and long: they take the blocks of who runs, again and again.
      if (i < 250 && (i < 10 || pick(12) == 0)) {
        const int prompt = 1 + pick(6);
        most[server.add(prompt, {.max_new = pick(2) ? 4 * blocks - prompt : 1 + pick(12), .priority = pick(4)})] = 0;
      }
      server.step();
      for (const SeqId id : server.last().preempted) most[id.value] = std::max(most[id.value], server.sched().progress(id).preemptions);
    }
    for (const auto& [id, preemptions] : most) {
      EXPECT_LE(preemptions, kMostPreemptions) << "sequence " << id;
      sheltered += preemptions == kMostPreemptions;
    }
  }
  EXPECT_GT(sheltered, 5);
}

TEST(Order, deadlines_that_can_be_kept_in_some_order_are_kept_100_seeds) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    // One at a time, one step each: any order takes as long, and deadlines k, in steps, can be kept by construction.
    Server server({.step_tokens = 64, .step_outputs = 8, .max_running = 1});
    std::vector<int> turns(20);
    for (int i = 0; i < 20; ++i) turns[static_cast<std::size_t>(i)] = i + 1;
    std::ranges::shuffle(turns, rng);
    std::map<int, std::int64_t> due_us;
    for (int i = 0; i < 20; ++i) {
      const std::int64_t slo = turns[static_cast<std::size_t>(i)] * kStepUs + static_cast<int>(rng() % 3) * kStepUs;
      server.add(5, {.max_new = 1});  // no deadline: waits for all that have one
      due_us[server.add(5 + static_cast<int>(rng() % 3), {.max_new = 1, .ttft_slo_us = slo})] = slo;
    }
    for (int i = 0; i < 45; ++i) server.step();
    int late = 0;
    for (const auto& [id, due] : due_us) late += server.first_token_us_.at(id) > due;
    EXPECT_EQ(late, 0);
  }
}

TEST(Order, a_tenant_that_holds_all_slots_with_long_answers_gives_back_what_is_not_its_share) {
  Server server({.step_tokens = 32, .step_outputs = 8, .max_running = 8, .max_wait_us = 300'000});
  for (int i = 0; i < 16; ++i) server.add(4, {.max_new = 2000, .priority = 1000, .tenant = 1, .ttft_slo_us = 1});
  for (int i = 0; i < 100; ++i) server.step();  // the line of tenant 1 starves by now
  for (int i = 0; i < 50; ++i) {                // one after the other: each is through in a few steps
    const int id = server.add(4, {.max_new = 2, .tenant = 2});
    for (int k = 0; k < 4; ++k) server.step();
    ASSERT_TRUE(server.first_token_us_.contains(id)) << i;
  }
  // As many as it likes: half of the slots are its own, and stay so.
  for (int i = 0; i < 16; ++i) server.add(4, {.max_new = 2000, .tenant = 2});
  for (int i = 0; i < 20; ++i) server.step();
  int of_first = 0;
  for (const Slice& slice : server.last().slices) of_first += slice.seq.value < 16;
  EXPECT_EQ(of_first, 4);
  for (int i = 0; i < 100; ++i) {
    server.step();
    EXPECT_TRUE(server.last().preempted.empty()) << i;
  }
}

TEST(Order, who_was_away_starts_level_with_the_others) {
  Tenants tenants;
  Tenant* busy = tenants.join(1);
  busy->served = 5'000;
  Tenant* fresh = tenants.join(2);
  EXPECT_EQ(fresh->served, 5'000);  // rest earns no credit
  fresh->served = 9'000;
  tenants.leave(fresh);
  EXPECT_EQ(tenants.join(2)->served, 9'000);  // nor does leaving and coming back
}

TEST(Order, names_of_tenants_do_not_pile_up) {
  Tenants tenants;
  Tenant* stays = tenants.join(-1);
  stays->served = 7;
  for (int id = 0; id < 100'000; ++id) tenants.leave(tenants.join(id));
  EXPECT_EQ(tenants.join(-1), stays);
  EXPECT_LE(tenants.size(), 1'100u);
}

}  // namespace
}  // namespace millrace::sched
