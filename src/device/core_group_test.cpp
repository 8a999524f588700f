#include "device/core_group.h"

#include <gtest/gtest.h>

#include <numeric>

namespace millrace::device {
namespace {

TEST(CoreGroup, every_tile_runs_exactly_once_for_any_count_of_workers_and_tiles) {
  for (const bool caller_works : {true, false})
    for (const int workers : {1, 2, 3, 5})
      for (const int tiles : {0, 1, 2, 7, 100}) {
        CoreGroup group({.workers = workers, .scratch_bytes = 0, .cpus = {}, .caller_works = caller_works});
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tiles));
        for (int round = 0; round < 20; ++round)
          group.run_once([&](Worker& w) { w.for_tiles(tiles, [&](int i) { ++runs[static_cast<std::size_t>(i)]; }); });
        for (const auto& r : runs) EXPECT_EQ(r.load(), 20);
      }
}

TEST(CoreGroup, what_one_phase_writes_the_next_one_reads_on_every_worker) {
  CoreGroup group({.workers = 3});
  std::vector<int> first(97), second(97);
  for (int round = 1; round <= 200; ++round) {
    group.run_once([&](Worker& w) {
      w.for_tiles(97, [&](int i) { first[static_cast<std::size_t>(i)] = i * round; });
      w.barrier();
      w.for_tiles(97, [&](int i) { second[static_cast<std::size_t>(i)] = first[static_cast<std::size_t>(96 - i)]; });
    });
    for (int i = 0; i < 97; ++i) ASSERT_EQ(second[static_cast<std::size_t>(i)], (96 - i) * round);
  }
}

TEST(CoreGroup, launches_of_a_list_run_in_order_and_scratch_is_private) {
  CoreGroup group({.workers = 2, .scratch_bytes = 128});
  std::vector<int> order;
  const auto note = [](const void* op, const void* step, Worker& w) noexcept {
    w.scratch()[0] = static_cast<std::byte>(w.index());
    w.for_tiles(1, [&](int) { static_cast<std::vector<int>*>(const_cast<void*>(step))->push_back(*static_cast<const int*>(op)); });
    w.barrier();
    w.for_tiles(2, [&](int) {
      if (w.scratch()[0] != static_cast<std::byte>(w.index())) std::abort();
    });
  };
  const int ids[3] = {4, 5, 6};
  std::vector<Launch> launches;
  for (const int& id : ids) launches.push_back({note, &id, "note"});
  for (int i = 0; i < 3; ++i) group.run(launches, &order);
  EXPECT_EQ(order, (std::vector<int>{4, 5, 6, 4, 5, 6, 4, 5, 6}));
}

TEST(CoreGroup, a_thousand_groups_start_and_stop) {
  std::atomic<int> runs{0};
  for (int i = 0; i < 1000; ++i) {
    CoreGroup group({.workers = 2});
    if (i % 2) group.run_once([&](Worker& w) { w.for_tiles(2, [&](int) { ++runs; }); });
  }
  EXPECT_EQ(runs.load(), 1000);
}

// Launches that one worker does alone run once each, in their place, by whichever worker passes the barrier.
TEST(CoreGroup, small_launches_run_behind_the_barrier_before_them) {
  struct Op { std::vector<int>* order; std::atomic<int>* runs; int id; bool small; };
  for (const bool caller_works : {true, false})
    for (const int workers : {1, 2, 3}) {
      CoreGroup group({.workers = workers, .caller_works = caller_works});
      std::vector<int> order;
      std::atomic<int> runs = 0;
      std::vector<Op> ops;
      for (const bool small : {true, false, true, true, false, true}) ops.push_back({&order, &runs, static_cast<int>(ops.size()), small});
      std::vector<Launch> launches;
      for (const Op& op : ops)
        launches.push_back({[](const void* p, const void*, Worker& w) noexcept {
                              const Op& o = *static_cast<const Op*>(p);
                              if (o.small && o.id > 0) ++*o.runs;
                              w.for_tiles(1, [&](int) { o.order->push_back(o.id); });
                            },
                            &op, "op", [](const void* p, const void*) noexcept { return static_cast<const Op*>(p)->small; }});
      for (int round = 0; round < 200; ++round) {
        order.clear(), runs = 0;
        group.run(launches, nullptr);
        ASSERT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5}));
        ASSERT_EQ(runs.load(), 3);  // the first of a list is everybody's
      }
    }
}

// A worker that its core was taken from, here for a whole list: the others finish without it, and when it comes back it
// takes no tile of a launch that it has missed.
TEST(CoreGroup, a_worker_without_a_tile_holds_nobody_up) {
  constexpr int kLaunches = 50, kTiles = 7;
  struct Step { std::atomic<bool> release{false}; std::atomic<int> held{-1}; std::atomic<int> ran[kLaunches] = {}; };
  for (const int workers : {2, 3}) {
    CoreGroup group({.workers = workers});
    Step step;
    std::vector<int> ids(kLaunches);
    std::iota(ids.begin(), ids.end(), 0);
    std::vector<Launch> launches;
    for (const int& id : ids)
      launches.push_back({[](const void* op, const void* s, Worker& w) noexcept {
                            Step& at = *static_cast<Step*>(const_cast<void*>(s));
                            const int i = *static_cast<const int*>(op);
                            if (w.index() != 0) {  // held in the first launch that it sees, until worker 0 is in the last one
                              int nobody = -1;
                              if (at.held.compare_exchange_strong(nobody, w.index())) at.release.wait(false);
                            }
                            w.for_tiles(kTiles, [&](int) { ++at.ran[i]; });
                            w.barrier();
                            w.for_tiles(kTiles, [&](int) { ++at.ran[i]; });
                            if (i == kLaunches - 1) at.release = true, at.release.notify_all();
                          },
                          &id, "held"});
    for (int round = 0; round < 20; ++round) {
      step.release = false, step.held = -1;
      for (auto& r : step.ran) r = 0;
      group.run(launches, &step);
      for (const auto& r : step.ran) ASSERT_EQ(r.load(), 2 * kTiles);
    }
  }
}

}  // namespace
}  // namespace millrace::device
