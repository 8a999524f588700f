// bench soak: random load under memory pressure for as long as one likes. Requests arrive in waves and are cancelled, run
// out of time, have priorities, prefixes, salts, several answers and readers that do not read, in a KV cache that holds a
// fraction of them. Afterwards every request has ended, every block is accounted for, and a text that was asked for again
// and again was always the same (B4, P16); the memory of the process is shown as time goes on.

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "cli/bench_modes.h"
#include "cli/output.h"
#include "cli/session.h"
#include "device/memory_info.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kMostOpen = 48, kMaxRunning = 24, kMostPrompt = 160, kMostNew = 96, kPrefix = 64, kMostAnswers = 4;
constexpr int kPoolTokens = 1024;  // what four of the longest requests take; forty wait
constexpr int kTenths = 10;

struct SoakReport {
  double seconds = 0;
  int submitted = 0, stop = 0, length = 0, cancelled = 0, timeout = 0, error = 0, dropped = 0;  // answers; those that ended, by how
  int probes = 0, probes_differing = 0;
  std::int64_t preemptions = 0, most_preemptions = 0;  // of all; of one request
  std::uint64_t steps = 0, computed_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  std::array<std::int64_t, kTenths + 1> resident_bytes{};  // [0] after warming up
  int blocks = 0, blocks_used = 0, blocks_cached = 0, blocks_free = 0;
  std::uint64_t not_accounted = 0;  // requests that the engine counts as neither finished nor cancelled nor failed

  int lost_blocks() const { return blocks - blocks_cached - blocks_free; }
  /// The largest of the later ones against the first tenth's.
  double drift() const {
    const auto largest = *std::max_element(resident_bytes.begin() + 2, resident_bytes.end());
    return static_cast<double>(largest) / static_cast<double>(resident_bytes[1]) - 1;
  }
};

class SoakBench {
 public:
  SoakBench(engine::Engine& engine, int vocab_size) : engine_(engine), vocab_size_(vocab_size) {}

  Result<SoakReport> run(double seconds) {
    MILLRACE_TRY(alone, probe_alone());
    probe_ids_ = std::move(alone);
    const Microseconds begun_us = now_us();
    const auto due_us = [&](int tenth) { return begun_us + static_cast<Microseconds>(seconds * 1e6 * tenth / kTenths); };
    report_.resident_bytes[0] = device::resident_bytes();
    for (int tenth = 1; tenth <= kTenths; ++tenth) {
      while (now_us() < due_us(tenth)) MILLRACE_TRY_VOID(one_round());
      report_.resident_bytes[static_cast<std::size_t>(tenth)] = device::resident_bytes();
    }
    while (!open_.empty()) {
      for (Open& open : open_) open.sleeps_until_us = 0;
      read_all(50ms);
    }
    engine_.drain(1h);  // those whose handles were dropped
    report_.seconds = static_cast<double>(now_us() - begun_us) / 1e6;
    count();
    return report_;
  }

 private:
  struct Open {
    engine::Handle handle;
    std::vector<TokenId> ids;
    bool is_probe = false;
    Microseconds sleeps_until_us = 0;  // does not read until then
    bool over = false;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return pick(n) == 0; }

  /// Greedy, without salt, alike each time.
  engine::Request probe() const {
    engine::Request request;
    for (int i = 0; i < 100; ++i) request.prompt.push_back((i * 37 + 11) % vocab_size_);
    request.max_new_tokens = 24;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    return request;
  }

  Result<std::vector<TokenId>> probe_alone() {
    MILLRACE_TRY(handle, engine_.submit(probe()));
    std::vector<TokenId> ids;
    while (const auto event = handle.next(1h)) {
      if (event->error) return *event->error;
      for (const auto& token : event->tokens) ids.push_back(token.id);
    }
    return ids;
  }

  engine::Request random_request() {
    engine::Request request;
    if (one_in(2)) {
      const int family = pick(4);
      for (int i = 0; i < kPrefix; ++i) request.prompt.push_back((family * 1009 + i * 31) % vocab_size_);
    }
    for (int i = 0, own = 1 + pick(kMostPrompt - kPrefix); i < own; ++i) request.prompt.push_back(pick(vocab_size_));
    request.max_new_tokens = 1 + pick(kMostNew);
    request.ignore_eos = one_in(2);
    request.sampling.temperature = one_in(3) ? 0.0f : 1.0f;
    request.sampling.seed = random_();
    if (one_in(3)) request.sampling.top_k = 40;
    if (one_in(4)) request.sampling.top_p = 0.9f;
    if (one_in(4)) request.sampling.repetition_penalty = 1.2f;
    if (one_in(4)) request.sampling.frequency_penalty = 0.3f;
    if (one_in(4)) request.sampling.top_logprobs = pick(6);
    if (one_in(4)) request.stop = {"the", "\n\n"};
    if (one_in(4)) request.cache_salt = one_in(2) ? "a" : "b";
    if (one_in(8)) request.timeout_us = 1 + pick(4'000'000);
    if (one_in(8)) request.ttft_slo_us = 1 + pick(2'000'000);
    if (one_in(8)) request.tpot_slo_us = 1 + pick(500'000);
    if (one_in(16)) request.max_unread_tokens = 4;
    request.priority = pick(3);
    request.tenant = pick(4);
    request.tenant_weight = 1 + request.tenant;
    return request;
  }

  Result<void> one_round() {
    if (one_in(50)) wanted_ = pick(kMostOpen + 1);  // waves; none at all, too
    if (std::ssize(open_) < wanted_) {
      const bool is_probe = one_in(16);
      const int answers = !is_probe && one_in(6) ? 2 + pick(kMostAnswers - 1) : 1;
      MILLRACE_TRY(handles, engine_.submit(is_probe ? probe() : random_request(), answers));
      for (engine::Handle& handle : handles) {
        ++report_.submitted;
        if (one_in(32)) {
          ++report_.dropped;  // the handle goes, and with it the request
          continue;
        }
        open_.push_back({.handle = std::move(handle), .is_probe = is_probe, .sleeps_until_us = !is_probe && one_in(16) ? now_us() + pick(3'000'000) : 0});
      }
    }
    if (!open_.empty() && one_in(24)) {
      Open& one = open_[static_cast<std::size_t>(pick(static_cast<int>(open_.size())))];
      if (!one.is_probe) one.handle.cancel();
    }
    read_all(std::chrono::milliseconds(pick(20)));
    return {};
  }

  /// What there is to read; waits at the first one for at most `patience`.
  void read_all(std::chrono::milliseconds patience) {
    for (Open& open : open_) {
      if (open.sleeps_until_us > now_us()) continue;
      if (auto event = open.handle.next(patience)) take(open, *event);
      patience = 0ms;
    }
    std::erase_if(open_, [](const Open& open) { return open.over; });
  }

  void take(Open& open, const engine::Event& event) {
    for (const auto& token : event.tokens) open.ids.push_back(token.id);
    if (!event.finished) return;
    open.over = true;
    switch (*event.finished) {
      case engine::Finish::stop: ++report_.stop; break;
      case engine::Finish::length: ++report_.length; break;
      case engine::Finish::cancelled: ++report_.cancelled; break;
      case engine::Finish::timeout: ++report_.timeout; break;
      case engine::Finish::error: ++report_.error; break;
    }
    report_.most_preemptions = std::max<std::int64_t>(report_.most_preemptions, event.usage.preemptions);
    if (!open.is_probe) return;
    ++report_.probes;
    if (open.ids != probe_ids_) ++report_.probes_differing;
  }

  void count() {
    const engine::EngineMetrics& m = engine_.metrics();
    report_.preemptions = static_cast<std::int64_t>(m.preemptions_total.value());
    report_.steps = m.steps_total.value();
    report_.computed_tokens = m.computed_tokens_total.value(), report_.cached_tokens = m.cached_tokens_total.value();
    report_.generated_tokens = m.generated_tokens_total.value();
    report_.not_accounted = m.requests_total.value() - m.request_us.count();
    for (const auto& pool : engine_.cache().pools)
      report_.blocks += pool.blocks, report_.blocks_used += pool.used, report_.blocks_cached += pool.cached, report_.blocks_free += pool.free;
  }

  engine::Engine& engine_;
  int vocab_size_;
  int wanted_ = kMostOpen;
  std::vector<Open> open_;
  std::vector<TokenId> probe_ids_;
  SoakReport report_;
  std::mt19937 random_{1};
};

nlohmann::ordered_json to_json(const SoakReport& r) {
  return {{"seconds", r.seconds},
          {"answers", {{"submitted", r.submitted}, {"stop", r.stop}, {"length", r.length}, {"cancelled", r.cancelled}, {"timeout", r.timeout}, {"error", r.error}, {"dropped", r.dropped}}},
          {"not_accounted", r.not_accounted},
          {"probes", r.probes},
          {"probes_differing", r.probes_differing},
          {"preemptions", r.preemptions},
          {"most_preemptions", r.most_preemptions},
          {"steps", r.steps},
          {"computed_tokens", r.computed_tokens},
          {"cached_tokens", r.cached_tokens},
          {"generated_tokens", r.generated_tokens},
          {"blocks", {{"total", r.blocks}, {"used", r.blocks_used}, {"cached", r.blocks_cached}, {"free", r.blocks_free}, {"lost", r.lost_blocks()}}},
          {"resident_bytes", r.resident_bytes},
          {"drift", r.drift()}};
}

std::string to_text(const SoakReport& r) {
  std::string out = fmt::format(
      "{:.1f} minutes, {} steps; prompt tokens {} computed, {} cached; {} generated\n"
      "{} answers: {} ended by stop, {} by length, {} cancelled, {} out of time, {} failed, {} left alone; {} not accounted for\n"
      "{} preemptions, {} at most of one request; {} texts asked for again, {} of them differ\n"
      "blocks {}: {} used, {} cached, {} free, {} lost\nresident MiB at each tenth:",
      r.seconds / 60, r.steps, r.computed_tokens, r.cached_tokens, r.generated_tokens, r.submitted, r.stop, r.length, r.cancelled, r.timeout, r.error,
      r.dropped, r.not_accounted, r.preemptions, r.most_preemptions, r.probes, r.probes_differing, r.blocks, r.blocks_used, r.blocks_cached,
      r.blocks_free, r.lost_blocks());
  for (const std::int64_t bytes : r.resident_bytes) out += fmt::format(" {:.1f}", static_cast<double>(bytes) / (1 << 20));
  return out + fmt::format("   {:+.2f} % after the first\n", 100 * r.drift());
}

}  // namespace

Result<int> run_bench_soak(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  if (config.max_positions < kMostPrompt + kMostNew)
    return error(Code::unsupported, "bench soak needs a context of {} tokens, '{}' has {}", kMostPrompt + kMostNew, options.model, config.max_positions);
  const Need need{.pool_tokens = in_blocks(kPoolTokens, options), .step_tokens = 128, .max_running = kMaxRunning, .max_step_us = max_step_us(options)};
  MILLRACE_TRY(session, start_session(std::move(bundle), config, options, need));
  SoakBench bench(*session.engine, config.vocab_size);
  MILLRACE_TRY(report, bench.run(60 * options.minutes));
  MILLRACE_TRY_VOID(write_report(options.json, to_json(report), to_text(report)));
  if (report.error > 0 || report.lost_blocks() != 0 || report.not_accounted != 0 || report.probes_differing > 0)
    return error(Code::corrupt_data, "{} answers failed, {} blocks lost, {} requests not accounted for, {} texts differ", report.error, report.lost_blocks(),
                 report.not_accounted, report.probes_differing);
  return 0;
}

}  // namespace millrace::cli
