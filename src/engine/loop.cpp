#include "engine/loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/check_request.h"

namespace millrace::engine {
namespace {

sched::Limits limits_of(const model::RunnerInfo& info, const EngineOptions& options) {
  const int tokens = std::max(std::min(options.step_tokens, info.max_step_tokens), 1);
  const int running = std::min({options.max_running, info.max_slices, info.max_step_outputs, tokens});
  return {.step_tokens = tokens, .step_outputs = info.max_step_outputs, .max_running = std::max(running, 1)};
}

}  // namespace

Engine::Loop::Loop(std::unique_ptr<model::Runner> runner, const text::Tokenizer& tokenizer, EngineOptions options)
    : runner_(std::move(runner)),
      tokenizer_(tokenizer),
      options_(options),
      limits_(limits_of(runner_->info(), options)),
      groups_(group_specs(runner_->info()), 2 * limits_.step_tokens),  // one step runs, one more may wait
      scheduler_(limits_, groups_),
      admission_(scheduler_.admission()) {
  update_gauges();
  if (options_.kv_disk && options_.prefix_sharing) {
    groups_.note_evictions();
    loader_ = std::make_unique<KvLoader>(*options_.kv_disk, [this](KvLoader::Loaded loaded) {
      {
        const std::lock_guard lock(mutex_);
        loaded_.push_back(std::move(loaded));
      }
      work_.notify_one();
    });
  }
  thread_ = std::thread([this] { run(); });
}

Engine::Loop::~Loop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  thread_.join();
}

Result<std::shared_ptr<EventChannel>> Engine::Loop::submit(Request request) {
  auto fine = checked(std::move(request), info(), admission_);
  if (!fine) {
    metrics_.refused_total.add();
    return std::move(fine).error();
  }
  auto channel = std::make_shared<EventChannel>();
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || n_queued_ >= options_.max_queued) {
      metrics_.refused_total.add();
      if (draining_) return error(Code::cancelled, "the engine takes no new requests, it is about to stop");
      return error(Code::exhausted, "{} requests are waiting, at most {} may", n_queued_, options_.max_queued);
    }
    ++n_open_;
    ++n_queued_;
    inbox_.push_back({*std::move(fine), channel, now_us()});
  }
  metrics_.requests_total.add();
  work_.notify_one();
  return channel;
}

int Engine::Loop::drain(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto none_open = [&] { return n_open_ == 0; };
  if (idle_.wait_for(lock, bounded(timeout), none_open)) return 0;
  cut_ = true;
  idle_.wait(lock, none_open);
  return n_cut_;
}

void Engine::Loop::run() {
  while (take_inbox()) {
    sweep();
    if (!live_.empty()) step();
    update_gauges();
  }
  cutting_ = false;
  loader_.reset();
  unpark([](const Arrival&) { return true; });
  while (!live_.empty()) end(live_.begin()->first, Finish::cancelled);
  keep_cached();
}

/// Parks while there is nothing to do. False when the engine stops.
bool Engine::Loop::take_inbox() {
  std::vector<Arrival> arrivals;
  std::vector<KvLoader::Loaded> loaded;
  std::vector<std::function<void()>> tasks;
  bool stopping = false;
  {
    std::unique_lock lock(mutex_);
    const auto some = [&] { return has_work(); };
    if (parked_.empty()) work_.wait(lock, some);
    else work_.wait_for(lock, std::chrono::milliseconds(10), some);  // somebody may give up waiting for the disk
    arrivals.swap(inbox_);
    loaded.swap(loaded_);
    tasks.swap(tasks_);
    cutting_ = cut_;
    stopping = stop_;
  }
  for (const auto& task : tasks) task();
  for (KvLoader::Loaded& piece : loaded) use(std::move(piece));
  for (Arrival& arrival : arrivals) add(std::move(arrival));
  return !stopping;
}

/// The mutex is held.
bool Engine::Loop::has_work() const { return !live_.empty() || !inbox_.empty() || !loaded_.empty() || !tasks_.empty() || stop_; }

void Engine::Loop::add(Arrival arrival) {
  if (!loader_ || !park(arrival)) start(std::move(arrival));
}

sched::SequenceSpec Engine::Loop::spec_of(const Request& request) const {
  sched::SequenceSpec spec = sequence_spec(request);
  spec.shares = options_.prefix_sharing;
  return spec;
}

void Engine::Loop::start(Arrival arrival) {
  do { last_id_ = (last_id_ + 1) & 0x7fffffff; } while (live_.contains({last_id_}));
  const SeqId id{last_id_};
  auto live = std::make_unique<LiveRequest>(std::move(arrival.request), std::move(arrival.channel), tokenizer_,
                                            arrival.submitted_us);
  sched::SequenceSpec spec = spec_of(live->request());
  spec.prompt = live->take_prompt();
  const auto added = scheduler_.add(id, std::move(spec));
  MILLRACE_CHECK(added.ok(), "a checked request was refused: " + added.error().message);
  live_.emplace(id, std::move(live));
}

/// Ends what its client has given up or what is out of time, in whatever state it is.
void Engine::Loop::sweep() {
  const Microseconds now = now_us();
  unpark([&](const Arrival& a) { return cutting_ || a.channel->cancelled() || is_late(a.request, a.submitted_us, now); });
  ending_.clear();
  for (const auto& [id, live] : live_)
    if (cutting_ || live->cancelled() || live->late(now)) ending_.push_back(id);
  for (const SeqId id : ending_) {
    const bool cancelled = cutting_ || live_.at(id)->cancelled();
    end(id, cancelled ? Finish::cancelled : Finish::timeout);
  }
}

/// Its blocks, its place in the queue and its counts are settled before the client has its last event: what the client
/// does next finds them so.
void Engine::Loop::end(SeqId id, Finish reason, std::optional<Error> error) {
  const auto live = std::move(live_.extract(id).mapped());
  count_prompt(id, *live);
  scheduler_.remove(id);
  update_gauges();
  reason = live->finish(reason, std::move(error));
  switch (reason) {
    case Finish::stop:
    case Finish::length:
      metrics_.finished_total.add();
      break;
    case Finish::cancelled:
    case Finish::timeout:
      metrics_.cancelled_total.add();
      break;
    case Finish::error:
      metrics_.failed_total.add();
      break;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!live->started()) --n_queued_;
    if (cutting_ && reason == Finish::cancelled) ++n_cut_;
  }
  live->publish();
  const std::lock_guard lock(mutex_);
  if (--n_open_ == 0) idle_.notify_all();
}

void Engine::Loop::update_gauges() {
  metrics_.running.set(scheduler_.n_running());
  metrics_.waiting.set(scheduler_.n_waiting() + std::ssize(parked_));
  int used = 0, cached = 0, total = 0;
  for (int g = 0; g < groups_.n_groups(); ++g) {
    used += groups_.pool(g).n_used();
    cached += groups_.pool(g).n_cached();
    total += groups_.pool(g).n_blocks();
  }
  metrics_.kv_blocks_used.set(used);
  metrics_.kv_blocks_cached.set(cached);
  metrics_.kv_blocks_total.set(total);
}

}  // namespace millrace::engine
