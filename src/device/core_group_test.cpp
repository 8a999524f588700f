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
    if (w.index() == 0) static_cast<std::vector<int>*>(const_cast<void*>(step))->push_back(*static_cast<const int*>(op));
    w.barrier();
    if (w.scratch()[0] != static_cast<std::byte>(w.index())) std::abort();
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
    if (i % 2) group.run_once([&](Worker&) { ++runs; });
  }
  EXPECT_EQ(runs.load(), 1000);
}

// Launches that one worker does alone run once each, in their place, by whichever worker comes last.
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
                              ++*o.runs;
                              w.for_tiles(1, [&](int) { o.order->push_back(o.id); });
                            },
                            &op, "op", [](const void* p, const void*) noexcept { return static_cast<const Op*>(p)->small; }});
      for (int round = 0; round < 200; ++round) {
        order.clear(), runs = 0;
        group.run(launches, nullptr);
        ASSERT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5}));
        ASSERT_EQ(runs.load(), 3 + 3 * workers);  // the first of a list is everybody's
      }
    }
}

}  // namespace
}  // namespace millrace::device
