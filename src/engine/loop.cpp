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

Result<std::vector<std::shared_ptr<EventChannel>>> Engine::Loop::submit(Request request, int n) {
  auto fine = checked(std::move(request), info(), admission_);
  if (fine) {
    if (auto several = check_answers(*fine, n); !several) fine = std::move(several).error();
  }
  if (!fine) {
    metrics_.refused_total.add();
    return std::move(fine).error();
  }
  std::vector<std::shared_ptr<EventChannel>> channels;
  for (int i = 0; i < n; ++i) channels.push_back(std::make_shared<EventChannel>());
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || n_queued_ + n > options_.max_queued) {
      metrics_.refused_total.add();
      if (draining_) return error(Code::cancelled, "the engine takes no new requests, it is about to stop");
      return error(Code::exhausted, "{} requests are waiting, at most {} may", n_queued_, options_.max_queued);
    }
    n_open_ += n;
    n_queued_ += n;
    inbox_.push_back({*std::move(fine), channels, now_us()});
  }
  metrics_.requests_total.add(static_cast<std::uint64_t>(n));
  work_.notify_one();
  return channels;
}

CacheSnapshot Engine::Loop::cache() {
  std::promise<CacheSnapshot> promise;
  auto snapshot = promise.get_future();
  {
    const std::lock_guard lock(mutex_);
    lookers_.push_back(std::move(promise));
  }
  work_.notify_one();
  return snapshot.get();
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
  while (!live_.empty()) end(live_.begin()->first, Finish::cancelled);
}

/// Parks while there is nothing to do. False when the engine stops.
bool Engine::Loop::take_inbox() {
  std::vector<Arrival> arrivals;
  std::vector<std::promise<CacheSnapshot>> lookers;
  bool stopping = false;
  {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return !live_.empty() || !inbox_.empty() || !lookers_.empty() || stop_; });
    arrivals.swap(inbox_);
    lookers.swap(lookers_);
    cutting_ = cut_;
    stopping = stop_;
  }
  for (Arrival& arrival : arrivals) add(std::move(arrival));
  for (auto& looker : lookers) looker.set_value(scheduler_.cache_state());
  return !stopping;
}

SeqId Engine::Loop::next_id() {
  do { last_id_ = (last_id_ + 1) & 0x7fffffff; } while (live_.contains({last_id_}));
  return {last_id_};
}

void Engine::Loop::add(Arrival arrival) {
  const SeqId id = next_id();
  if (arrival.channels.size() > 1) add_answers(id, arrival);
  auto live = std::make_unique<LiveRequest>(std::move(arrival.request), std::move(arrival.channels[0]), tokenizer_,
                                            arrival.submitted_us);
  auto prompt = live->take_prompt();
  live_.emplace(id, std::move(live));
  start_sequence(id, std::move(prompt));
}

void Engine::Loop::start_sequence(SeqId id, std::vector<TokenId> prompt) {
  const LiveRequest* live = live_.at(id).get();
  sched::SequenceSpec spec = sequence_spec(live->request());
  spec.prompt = std::move(prompt);
  spec.shares = options_.prefix_sharing;
  spec.salt = kv::salt_of(info().fingerprint, spec.adapter, live->request().cache_salt);
  const auto added = scheduler_.add(id, std::move(spec));
  MILLRACE_CHECK(added.ok(), "a checked request was refused: " + added.error().message);
}

/// Ends what its client has given up or what is out of time, in whatever state it is.
void Engine::Loop::sweep() {
  const Microseconds now = now_us();
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
  if (leave_answers(id)) {
    count_prompt(id, *live);
    report_divergence(id, *live);
    scheduler_.remove(id);
  }
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
  metrics_.waiting.set(scheduler_.n_waiting());
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
