#pragma once

// A group of worker threads that runs a list of launches together, one after the other. A launch is a function that
// every worker calls (single program, many workers); between launches, and inside one where it asks, all of them meet
// at a barrier. Knows nothing of tensors: what a launch does is its own business.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace millrace::device {

class CoreGroup;

/// What one worker sees inside a launch.
class Worker {
 public:
  int index() const { return index_; }  // [0, count)
  int count() const { return count_; }

  /// Private to this worker, 64-byte aligned, kept between launches.
  std::span<std::byte> scratch() const { return scratch_; }

  /// All workers of the group arrive before any leaves. What was written before is visible to all after.
  void barrier();

  /// Calls body(i) once for each i in [0, n), over the whole group: its own contiguous share first, then what slower
  /// workers have left. Does not wait for the others. Every worker makes the same calls with the same n, at most
  /// kMaxTileLoops of them between two barriers (the end of a launch is one).
  template <class Body>
  void for_tiles(int n, Body&& body);

 private:
  friend class CoreGroup;
  Worker(CoreGroup& group, int index, int count, std::span<std::byte> scratch)
      : group_(&group), index_(index), count_(count), scratch_(scratch) {}
  int next_loop();

  CoreGroup* group_;
  int index_;
  int count_;
  int loops_ = 0;  // tile loops since the last barrier
  std::span<std::byte> scratch_;
};

/// Tile loops that may follow each other without a barrier.
inline constexpr int kMaxTileLoops = 16;

/// One entry of a step's recorded list. `step` is what start() got: the arguments that change from step to step.
struct Launch {
  void (*run)(const void* op, const void* step, Worker& worker) noexcept;
  const void* op;
  const char* name;  // for profiles; outlives the list

  /// True: so little work in this step that one worker does it while the others wait. Such a launch costs no barrier:
  /// the last worker to arrive at the one before runs it. Null: never.
  bool (*alone)(const void* op, const void* step) noexcept = nullptr;
};

struct CoreGroupOptions {
  int workers = 1;                // >= 1
  std::size_t scratch_bytes = 0;  // per worker
  std::vector<int> cpus;          // one per worker to pin it to; empty = not pinned

  /// The thread that calls wait() is worker 0, so that a group of n needs n - 1 threads and one stream of decodes
  /// costs no thread switch. Otherwise all workers are threads of the group.
  bool caller_works = true;
};

class CoreGroup {
 public:
  explicit CoreGroup(CoreGroupOptions options);
  ~CoreGroup();  // waits for a running list
  CoreGroup(const CoreGroup&) = delete;
  CoreGroup& operator=(const CoreGroup&) = delete;

  int workers() const { return static_cast<int>(workers_.size()); }

  /// Runs `launches` on all workers, with `step` handed to each; returns at once. Not empty; both stay valid until wait() returns.
  /// One list at a time, from one thread.
  void start(std::span<const Launch> launches, const void* step);

  /// Returns when the list that start() got has run.
  void wait();

  void run(std::span<const Launch> launches, const void* step) { start(launches, step), wait(); }

  /// One body on all workers, outside any plan (packing weights, tests): body(Worker&).
  template <class Body>
  void run_once(Body&& body) {
    const Launch launch = {[](const void* op, const void*, Worker& w) noexcept { (*static_cast<std::remove_reference_t<Body>*>(const_cast<void*>(op)))(w); },
                           &body, "once"};
    run({&launch, 1}, nullptr);
  }

  /// Adds the time of each launch, as worker 0 sees it from barrier to barrier, to totals_us[i] for the i-th launch of
  /// the list; a launch that one worker does alone counts for itself. Empty switches it off. Between runs only.
  void profile(std::span<double> totals_us) { profile_ = totals_us; }

 private:
  friend class Worker;

  // A worker's share of the tiles of each loop: the next index to run, counted from the start of the share.
  struct alignas(64) Share { std::atomic<int> next{0}; };
  Share& share(int loop, int worker) { return shares_[static_cast<std::size_t>(loop * workers() + worker)]; }
  void reset_shares(int loops);

  void work(int index);           // one list
  void thread_main(int index);
  template <class LastInDoes>
  void meet(int loops, LastInDoes&& last_in_does);  // the barrier, behind `loops` tile loops
  std::size_t run_alone(std::size_t i, Worker& worker);

  std::vector<std::byte*> scratch_;
  std::size_t scratch_bytes_;
  std::vector<Worker> workers_;
  std::unique_ptr<Share[]> shares_;  // [kMaxTileLoops][workers]
  bool caller_works_;

  std::span<const Launch> launches_;
  const void* step_ = nullptr;
  std::span<double> profile_;
  std::size_t next_launch_ = 0;  // behind the barrier; written by the last one in
  double alone_us_ = 0;          // of what it ran there

  alignas(64) std::atomic<std::uint32_t> epoch_{0};       // lists started, and one more to stop
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // barriers passed
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};        // lists finished, where the caller does not work
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

template <class Body>
void Worker::for_tiles(int n, Body&& body) {
  // Shares are [n*w/count, n*(w+1)/count): contiguous, so that a worker streams through neighbouring memory. Who runs
  // a tile never changes its result.
  const int loop = next_loop();
  for (int turn = 0; turn < count_; ++turn) {
    const int owner = (index_ + turn) % count_;
    const int begin = static_cast<int>(static_cast<std::int64_t>(n) * owner / count_);
    const int end = static_cast<int>(static_cast<std::int64_t>(n) * (owner + 1) / count_);
    std::atomic<int>& next = group_->share(loop, owner).next;
    while (next.load(std::memory_order_relaxed) < end - begin) {
      const int i = begin + next.fetch_add(1, std::memory_order_relaxed);
      if (i >= end) break;
      body(i);
    }
  }
}

}  // namespace millrace::device
