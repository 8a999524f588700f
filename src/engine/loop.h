#pragma once

// The engine's thread. It owns scheduler, cache tables, runner and every open request; other threads reach it through
// the inbox, which with its counts is the only thing the mutex guards: no lock is held while a step runs. It sleeps
// while nothing is open. *Parked* are requests that wait for blocks from the disk.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_disk.h"
#include "engine/kv_file.h"
#include "engine/kv_loader.h"
#include "engine/live_request.h"
#include "engine/step_draws.h"
#include "engine/step_input.h"
#include "engine/waiting_line.h"
#include "kv/cache_groups.h"
#include "sched/scheduler.h"

namespace millrace::engine {

/// Times and counts are signed until they are recorded.
inline void record(Histogram& histogram, std::int64_t value) { histogram.record(static_cast<std::uint64_t>(value)); }

class Engine::Loop {
 public:
  Loop(std::unique_ptr<model::Runner> runner, const text::Tokenizer& tokenizer, EngineOptions options);
  ~Loop();

  // Any thread; see Engine.
  Result<std::vector<std::shared_ptr<EventChannel>>> submit(Request request, int n);
  sched::CacheState cache();
  CacheReport explain(std::span<const TokenId> prompt, const std::string& cache_salt);
  Microseconds pulse() const;
  int drain(std::chrono::milliseconds timeout);
  Result<int> save(std::span<const TokenId> tokens, const std::string& path, const std::string& cache_salt);
  Result<int> restore(const std::string& path, const std::string& cache_salt);
  const EngineMetrics& metrics() const { return metrics_; }
  const model::RunnerInfo& info() const { return runner_->info(); }

 private:
  struct Arrival {
    Request request;
    std::vector<std::shared_ptr<EventChannel>> channels;  // one for each answer
    Microseconds submitted_us;
  };

  void calibrate();

  // Under the mutex: the line of requests that have not started.
  void leave_line(const Request& request, int n, std::int64_t prompt_tokens, Microseconds now);
  void count_line();
  std::uint64_t salt_of(const std::string& cache_salt, int adapter = 0) const;
  // loop_cache.cpp, any thread but the engine's: runs `task` on the engine thread between two steps and waits for it.
  void between_steps(const std::function<void()>& task);

  // The engine thread from here on.
  void run();
  bool take_inbox();
  void add(Arrival arrival);
  void start(Arrival arrival);
  SeqId next_id();
  void start_sequence(SeqId id, std::vector<TokenId> prompt);
  void sweep();
  void count_end(LiveRequest& live, Finish reason);
  void end(SeqId id, Finish reason, std::optional<Error> error = std::nullopt);
  void update_gauges();

  // loop_cache.cpp
  bool park(Arrival& arrival);
  std::vector<KvBlock> wanted_from_disk(std::span<const TokenId> prompt, std::uint64_t salt) const;
  void use(KvLoader::Loaded loaded);
  void unpark(const std::function<bool(const Arrival&)>& which);
  KvBlock read_block(int group, BlockId id, const kv::BlockContent& content) const;
  void adopt(const KvBlock& block);
  void keep_evicted();
  void keep_cached();

  // loop_step.cpp
  void step();
  void start_slices(Microseconds now);
  void prepare_draws();
  void read_outputs(const model::StepOutputs& outputs, sched::StepTimes times);
  bool hand_out_rows(const sched::Slice& slice, std::span<const float> rows, int width);
  void settle(const sched::Slice& slice, sampling::Sampled sampled, Microseconds now);
  void deliver(SeqId id, LiveRequest& live, sampling::Sampled sampled, Microseconds now);
  void count_prompt(SeqId id, LiveRequest& live);
  void count_time(Microseconds begun_us, Microseconds ran_us, Microseconds step_us);
  void report_divergence(SeqId id, LiveRequest& live);

  // answers.cpp: several answers to one prompt
  void add_answers(SeqId first, const Arrival& arrival);
  void draw_answers(const sched::Slice& slice);
  void fork_answers(SeqId first, std::size_t row, Microseconds now);
  bool leave_answers(SeqId id);

  const std::unique_ptr<model::Runner> runner_;
  const text::Tokenizer& tokenizer_;
  const std::vector<TokenId> end_tokens_;
  const EngineOptions options_;
  const sched::Limits limits_;
  kv::CacheGroups groups_;
  sched::Scheduler scheduler_;
  const sched::Admission admission_;  // a copy: any thread reads it
  EngineMetrics metrics_;

  std::unordered_map<SeqId, std::unique_ptr<LiveRequest>> live_;
  std::unordered_map<SeqId, std::vector<SeqId>> answers_;  // to the prompt that the first computes: not yet sequences

  /// A request whose prefix comes from the disk first; or, as a follower, waits for a job of another one's that loads what
  /// it wants, too.
  struct Parked {
    Arrival arrival;
    std::int64_t job = 0;
    bool follower = false;
  };
  struct Loading {
    std::int64_t job = 0;
    kv::BlockHash first;  // of what it wants
  };
  std::vector<Parked> parked_;
  std::vector<Loading> loading_;
  std::int64_t last_job_ = 0;
  std::int32_t last_id_ = -1;
  bool cutting_ = false;  // drain's patience was over at the last look into the inbox

  // One step's worth, kept to use the memory again.
  sched::StepPlan plan_;
  StepInput input_;
  StepDraws draws_{info().vocab_size};
  std::vector<sampling::Sampled> sampled_;          // [slices]
  std::vector<std::span<const TokenId>> accepted_;  // [slices]
  std::vector<std::size_t> rows_;                   // [slices]: the row that a slice drew from
  std::vector<SeqId> ending_;
  Microseconds counted_until_us_ = 0;  // by count_time; 0: nothing was open until now

  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::vector<Arrival> inbox_;
  std::vector<KvLoader::Loaded> loaded_;
  std::vector<std::function<void()>> tasks_;
  int n_open_ = 0;    // submitted and not ended
  WaitingLine line_;  // of these, not started
  int n_cut_ = 0;     // ended by drain
  std::atomic<Microseconds> moved_us_{0};  // since then requests are open and no step has ended; 0: none is open
  bool draining_ = false, cut_ = false, stop_ = false;

  std::unique_ptr<KvLoader> loader_;  // ended by the engine thread
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace::engine
