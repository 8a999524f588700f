#pragma once

// Brings blocks of the disk tier into memory for the engine, on a thread of its own: the engine names what it wants and
// gets it in pieces, the next one when it has used the last. Knows neither requests nor the pool.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/kv_disk.h"

namespace millrace::engine {

class KvLoader {
 public:
  /// Blocks of one job in the order in which they were wanted. The first one that cannot be had ends the job.
  struct Loaded {
    std::int64_t job = 0;
    std::vector<KvBlock> blocks;
    bool last = false;
  };

  /// `deliver` is called on the loader's thread; taken() says that what it got is out of memory again.
  KvLoader(KvDisk& disk, std::function<void(Loaded)> deliver);
  ~KvLoader();

  /// `wanted`: blocks without bytes. False when too many jobs are in line: nobody should wait behind them.
  bool push(std::int64_t job, std::vector<KvBlock> wanted);
  void taken();

 private:
  struct Job {
    std::int64_t id = 0;
    std::vector<KvBlock> wanted;
  };
  void run();
  bool hand_over(Loaded loaded);

  KvDisk& disk_;
  const std::function<void(Loaded)> deliver_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool handed_over_ = false, stop_ = false;
  std::thread thread_;  // last
};

}  // namespace millrace::engine
