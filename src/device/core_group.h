#pragma once

// A group of worker threads that runs a list of launches together, one after the other. A launch is a function that
// workers call (single program, many workers) and whose work lies in tiles, which they take in turns. It is over when its
// tiles are done: nobody waits for a worker that has none, so one that the system has taken off its core holds up no
// more than the tile it was in. It finds out where the others are when it comes back. Knows nothing of tensors: what a
// launch does is its own business.

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

  /// Returns when the tiles of all loops before it are done. What they wrote is visible after.
  void barrier();

  /// Calls body(i) once for each i in [0, n), over the whole group: its own contiguous share first, then what slower
  /// workers have left. Does not wait for the others. Every worker makes the same calls with the same n < 2^20, at most
  /// kMaxTileLoops of them between two barriers (the end of a launch is one). Work outside of tiles is for nothing: a
  /// launch may be over before a worker sees it.
  template <class Body>
  void for_tiles(int n, Body&& body);

 private:
  friend class CoreGroup;
  Worker(CoreGroup& group, int index, int count, std::span<std::byte> scratch)
      : group_(&group), index_(index), count_(count), scratch_(scratch) {}
  int open_loop(int n);
  int claim(std::atomic<std::uint64_t>& share, int tiles) const;

  CoreGroup* group_;
  int index_;
  int count_;
  std::uint64_t epoch_ = 0;   // barriers that this worker has passed
  std::uint64_t launch_ = 0;  // where it is in the list
  int loops_ = 0;             // tile loops since the last barrier
  int tiles_ = 0;             // of these loops
  std::span<std::byte> scratch_;
};

/// Tile loops that may follow each other without a barrier.
inline constexpr int kMaxTileLoops = 16;

/// A count of barriers with a small number beside it, in one word: a tile of a loop, or a launch of a list.
namespace epochs {
inline constexpr int kBits = 20;
inline constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;
inline constexpr std::uint64_t kOver = kMask, kBusy = kMask - 1;  // no launches: the list is over; a worker is at the barrier
constexpr std::uint64_t word(std::uint64_t epoch, std::uint64_t number) { return epoch << kBits | number; }
constexpr std::uint64_t epoch_of(std::uint64_t word) { return word >> kBits; }
constexpr std::uint64_t number_of(std::uint64_t word) { return word & kMask; }
}  // namespace epochs

/// One entry of a step's recorded list. `step` is what start() got: the arguments that change from step to step.
struct Launch {
  void (*run)(const void* op, const void* step, Worker& worker) noexcept;
  const void* op;
  const char* name;  // for profiles; outlives the list

  /// True: so little work in this step that one worker does it while the others wait. Such a launch costs no barrier:
  /// the worker that finds the one before it over runs it. Null: never.
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

  // A worker's share of the tiles of each loop: the next one, counted from the start of the share, beside the epoch that it
  // belongs to. A word of an older epoch is a share that nobody has touched, so none is ever reset, and a worker that
  // comes late takes no tile of a launch that it does not know.
  struct alignas(64) Share { std::atomic<std::uint64_t> next{0}; };
  Share& share(int loop, int worker) { return shares_[static_cast<std::size_t>(loop * workers() + worker)]; }

  void work(int index);  // one list, or what is left of it
  void thread_main(int index);
  bool enter(std::uint64_t turn);
  void leave();
  template <class Next>
  bool advance(Worker& worker, Next&& next);
  void wait_for_others(const Worker& worker) const;
  std::uint64_t run_alone(std::uint64_t i, Worker& worker);

  std::vector<std::byte*> scratch_;
  std::size_t scratch_bytes_;
  std::vector<Worker> workers_;
  std::unique_ptr<Share[]> shares_;  // [kMaxTileLoops][workers]
  bool caller_works_;

  std::span<const Launch> launches_;
  const void* step_ = nullptr;
  std::span<double> profile_;
  std::atomic<double> alone_us_ = 0;  // of what ran behind the last barrier

  alignas(64) std::atomic<std::uint64_t> turn_{epochs::word(1, epochs::kOver)};  // barriers passed, and the launch behind them
  std::atomic<std::uint64_t> launch_epoch_{0};                                    // where that launch began
  alignas(64) std::atomic<int> done_{0};                                          // tiles since then
  alignas(64) std::atomic<std::uint32_t> inside_{0};                              // workers that may look at the list
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

inline int Worker::claim(std::atomic<std::uint64_t>& share, int tiles) const {
  std::uint64_t seen = share.load(std::memory_order_relaxed);
  for (;;) {
    if (epochs::epoch_of(seen) > epoch_) return -1;  // the others are further
    const std::uint64_t next = epochs::epoch_of(seen) == epoch_ ? epochs::number_of(seen) : 0;
    if (next >= static_cast<std::uint64_t>(tiles)) return -1;
    if (share.compare_exchange_weak(seen, epochs::word(epoch_, next + 1), std::memory_order_relaxed)) return static_cast<int>(next);
  }
}

template <class Body>
void Worker::for_tiles(int n, Body&& body) {
  // Shares are [n*w/count, n*(w+1)/count): contiguous, so that a worker streams through neighbouring memory. Who runs
  // a tile never changes its result.
  const int loop = open_loop(n);
  int ran = 0;
  for (int turn = 0; turn < count_; ++turn) {
    const int owner = (index_ + turn) % count_;
    const int begin = static_cast<int>(static_cast<std::int64_t>(n) * owner / count_);
    const int end = static_cast<int>(static_cast<std::int64_t>(n) * (owner + 1) / count_);
    std::atomic<std::uint64_t>& share = group_->share(loop, owner).next;
    for (int i; (i = claim(share, end - begin)) >= 0; ++ran) body(begin + i);
  }
  if (ran > 0) group_->done_.fetch_add(ran, std::memory_order_release);
}

}  // namespace millrace::device
