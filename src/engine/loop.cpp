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
  return {.step_tokens = tokens,
          .step_outputs = info.max_step_outputs,
          .max_running = std::max(running, 1),
          .schedule = options.schedule,
          .max_step_us = options.max_step_us,
          .max_wait_us = options.max_wait_us};
}

std::vector<TokenId> end_tokens_of(const text::Tokenizer& tokenizer, int vocab_size) {
  std::vector<TokenId> all;
  for (TokenId token = 0; token < std::min(tokenizer.vocab_size(), vocab_size); ++token)
    if (tokenizer.ends_generation(token)) all.push_back(token);
  return all;
}

}  // namespace

Engine::Loop::Loop(std::unique_ptr<model::Runner> runner, const text::Tokenizer& tokenizer, EngineOptions options)
    : runner_(std::move(runner)),
      tokenizer_(tokenizer),
      end_tokens_(end_tokens_of(tokenizer, runner_->info().vocab_size)),
      options_(options),
      limits_(limits_of(runner_->info(), options)),
      groups_(group_specs(runner_->info()), 2 * limits_.step_tokens),  // one step runs, one more may wait
      scheduler_(limits_, groups_),
      admission_(scheduler_.admission()),
      line_(options.max_queued, options.max_queued_tokens) {
  update_gauges();
  if (options_.calibrate && options_.max_step_us > 0) calibrate();
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
  const Microseconds now = now_us();
  const auto prompt_tokens = static_cast<int>(fine->prompt.size());
  {
    const std::lock_guard lock(mutex_);
    auto room = draining_ ? error(Code::cancelled, "the engine takes no new requests, it is about to stop")
                          : line_.check(fine->tenant, fine->tenant_weight, n, prompt_tokens, now);
    if (!room) {
      metrics_.refused_total.add();
      return std::move(room).error();
    }
    if (n_open_ == 0) moved_us_.store(now, std::memory_order_relaxed);
    n_open_ += n;
    line_.join(fine->tenant, fine->tenant_weight, n, prompt_tokens, now);
    count_line();
    inbox_.push_back({*std::move(fine), channels, now});
  }
  metrics_.requests_total.add(static_cast<std::uint64_t>(n));
  work_.notify_one();
  return channels;
}

sched::CacheState Engine::Loop::cache() {
  sched::CacheState snapshot;
  between_steps([&] { snapshot = scheduler_.cache_state(); });
  return snapshot;
}

void Engine::Loop::leave_line(const Request& request, int n, std::int64_t prompt_tokens, Microseconds now) {
  line_.leave(request.tenant, n, prompt_tokens, now);
  count_line();
}

void Engine::Loop::count_line() {
  metrics_.queued.set(line_.requests());
  metrics_.queued_tokens.set(line_.tokens());
}

Microseconds Engine::Loop::pulse() const {
  const Microseconds moved_us = moved_us_.load(std::memory_order_relaxed);
  return moved_us == 0 ? 0 : std::max<Microseconds>(now_us() - moved_us, 0);
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

/// Tells the scheduler what tiny steps take, before the first request. They write to block 0, which nobody has.
void Engine::Loop::calibrate() {
  constexpr Microseconds kMost = 50'000;
  constexpr int kMany = 16, kManyTake = 3;  // sixteen tokens take two to three times as long as one
  const std::vector<TokenId> tokens(kMany, 0);
  const BlockId block{0};
  const std::span<const BlockId> table(&block, 1);
  const std::vector<std::span<const BlockId>> tables(static_cast<std::size_t>(groups_.n_groups()), table);
  const int most = std::min(limits_.step_tokens, groups_.block_tokens());
  Microseconds spent = 0, one_us = 0;
  for (const int count : {1, 1, kMany}) {  // the first finds caches and page tables cold
    if (count > most || spent + (count == 1 ? 1 : kManyTake) * one_us > kMost) break;
    const model::StepSlice slice{.tokens = std::span(tokens).first(static_cast<std::size_t>(count)),
                                 .block_tables = tables,
                                 .outputs = model::Outputs::last};
    const Microseconds begun_us = now_us();
    if (!runner_->wait(runner_->submit(std::span(&slice, 1), {}))) return;  // then real steps have to tell
    const Microseconds took_us = std::max<Microseconds>(now_us() - begun_us, 1);
    const bool cold = spent == 0 && 2 * took_us <= kMost;  // and there is time for another
    spent += took_us;
    one_us = took_us;
    sched::StepWork work;
    work.add(0, count, 1, /*is_decode=*/count == 1);
    if (!cold) scheduler_.learn(work, static_cast<double>(took_us));
  }
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

/// Sleeps while there is nothing to do. False when the engine stops.
bool Engine::Loop::take_inbox() {
  if (live_.empty()) counted_until_us_ = 0;
  std::vector<Arrival> arrivals;
  std::vector<KvLoader::Loaded> loaded;
  std::vector<std::function<void()>> tasks;
  bool stopping = false;
  {
    std::unique_lock lock(mutex_);
    const auto some = [&] { return !live_.empty() || !inbox_.empty() || !loaded_.empty() || !tasks_.empty() || stop_; };
    if (parked_.empty()) work_.wait(lock, some);
    else work_.wait_for(lock, std::chrono::milliseconds(10), some);  // somebody may give up waiting for the disk
    arrivals.swap(inbox_);
    loaded.swap(loaded_);
    tasks.swap(tasks_);
    cutting_ = cut_;
    stopping = stop_;
  }
  for (KvLoader::Loaded& piece : loaded) use(std::move(piece));
  for (Arrival& arrival : arrivals) add(std::move(arrival));
  for (const auto& task : tasks) task();
  return !stopping;
}

SeqId Engine::Loop::next_id() {
  do { last_id_ = (last_id_ + 1) & 0x7fffffff; } while (live_.contains({last_id_}));
  return {last_id_};
}

void Engine::Loop::add(Arrival arrival) {
  if (!loader_ || !park(arrival)) start(std::move(arrival));
}

void Engine::Loop::start(Arrival arrival) {
  const SeqId id = next_id();
  if (arrival.channels.size() > 1) add_answers(id, arrival);
  auto live = std::make_unique<LiveRequest>(std::move(arrival.request), std::move(arrival.channels[0]), tokenizer_,
                                            end_tokens_, arrival.submitted_us);
  auto prompt = live->take_prompt();
  live_.emplace(id, std::move(live));
  start_sequence(id, std::move(prompt));
}

std::uint64_t Engine::Loop::salt_of(const std::string& cache_salt, int adapter) const { return kv::salt_of(info().fingerprint, adapter, cache_salt); }

void Engine::Loop::start_sequence(SeqId id, std::vector<TokenId> prompt) {
  const LiveRequest& live = *live_.at(id);
  sched::SequenceSpec spec = sequence_spec(live.request());
  spec.shares = options_.prefix_sharing;
  spec.salt = salt_of(live.request().cache_salt, spec.adapter);
  spec.arrival_us = live.submitted_us();
  spec.prompt = std::move(prompt);
  const auto added = scheduler_.add(id, std::move(spec));
  MILLRACE_CHECK(added.ok(), "a checked request was refused: " + added.error().message);
}

/// Ends what its client has given up or what is out of time, in whatever state it is.
void Engine::Loop::sweep() {
  const Microseconds now = now_us();
  unpark([&](const Arrival& a) {
    const bool cancelled = std::ranges::any_of(a.channels, [](const auto& channel) { return channel->cancelled(); });
    return cutting_ || cancelled || is_late(a.request, a.submitted_us, now);
  });
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
  count_end(*live, reason);
  {
    const std::lock_guard lock(mutex_);
    if (!live->started()) leave_line(live->request(), 1, live->queued_tokens(), now_us());
    if (cutting_ && reason == Finish::cancelled) ++n_cut_;
  }
  live->publish();
  const std::lock_guard lock(mutex_);
  if (--n_open_ > 0) return;
  moved_us_.store(0, std::memory_order_relaxed);
  idle_.notify_all();
}

void Engine::Loop::count_end(LiveRequest& live, Finish reason) {
  const Usage& usage = live.usage();
  metrics_.finished_total[static_cast<std::size_t>(reason)].add();
  record(metrics_.request_us, now_us() - live.submitted_us());
  record(metrics_.request_prompt_tokens, usage.prompt_tokens);
  record(metrics_.request_generated_tokens, usage.completion_tokens);
  if (usage.completion_tokens > 0) record(metrics_.decode_us, usage.decode_us);
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
