#include "server/net/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

namespace millrace::server {
namespace {

bool never() { return false; }

/// A pool of one thread that a first task holds until open() is called.
class Held {
 public:
  Held() { pool.post(0, [this] { gate_.get_future().wait(); }, never); }
  void open() { gate_.set_value(); }
  void post(int tenant, char letter) {
    pool.post(tenant, [this, letter] { said += letter; }, never);
  }
  std::string all() {
    std::promise<void> done;
    pool.post(99, [&] { done.set_value(); }, never);
    open();
    done.get_future().wait();
    while (pool.pending() > 0) std::this_thread::yield();
    return said;
  }
  std::string said;  // by the pool's one thread

 private:
  std::promise<void> gate_;

 public:
  WorkPool pool{1};  // last: its thread uses the rest
};

TEST(WorkPool, tenants_take_turns_and_each_keeps_its_order) {
  Held held;
  for (const char letter : std::string("abcdef")) held.post(1, letter);
  held.post(2, 'X');
  held.post(2, 'Y');
  held.post(3, '!');
  EXPECT_EQ(held.all(), "aX!bYcdef");
}

TEST(WorkPool, what_was_given_up_before_its_turn_never_runs_and_what_it_holds_goes) {
  Held held;
  std::atomic<bool> gone{false};
  auto held_by_task = std::make_shared<int>(1);
  held.pool.post(1, [&said = held.said, held_by_task] { said += 'g'; }, [&] { return gone.load(); });
  held.post(1, 'a');
  gone = true;
  EXPECT_EQ(held.all(), "a");
  EXPECT_EQ(held_by_task.use_count(), 1);
}

TEST(WorkPool, stopping_waits_for_what_runs_and_drops_what_waits) {
  std::atomic<int> ran{0};
  auto held_by_task = std::make_shared<int>(1);
  std::promise<void> begun;
  WorkPool pool(1);
  pool.post(0, [&] { begun.set_value(); ++ran; }, never);
  begun.get_future().wait();
  pool.stop();
  pool.post(0, [&ran, held_by_task] { ++ran; }, never);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(held_by_task.use_count(), 1);
}

}  // namespace
}  // namespace millrace::server
