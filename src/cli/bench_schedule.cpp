// bench schedule: one trace of requests, served by the same model under each schedule in turn. Random tokens; every
// request makes all of its new tokens.
//
// What the figures mean: tokens_per_s counts new tokens from the first arrival to the last token. utilisation is the time
// between handing a step to the workers and its end, over the time in which a request is open (waits or runs): the rest
// is the engine's own work between steps. Inside a step the workers may wait for each other; bench without a mode shows
// that. padding_waste is the share of slots whose sequence had ended while its static batch went on.

#include <algorithm>
#include <array>
#include <cmath>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "cli/bench_modes.h"
#include "cli/bench_requests.h"
#include "cli/borrowed_runner.h"
#include "cli/nearest_rank.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/trace.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxRunning = 32, kMadeRequests = 48;
constexpr unsigned kSeed = 1;

// Work waits when all requests arrive within this share of the time that they take one after the other.
constexpr double kArrivalShare = 0.125;

struct Row {
  std::string schedule;
  double tokens_per_s = 0, ttft_p50_s = 0, ttft_p99_s = 0, gap_p99_s = 0, gap_max_s = 0, utilisation = 0, padding_waste = 0, makespan_s = 0;
  std::uint64_t steps = 0, mixed_steps = 0, decode_over_bound_steps = 0, preemptions = 0;
  double host_share = 0;  // of a step
  std::array<double, 5> stall_s{};
};

// Of the workers: host. Of requests, summed over them: the rest.
constexpr std::array<const char*, 5> kCauses = {"host", "slots", "schedule", "blocks", "prefill"};

double seconds(std::uint64_t us) { return static_cast<double>(us) / 1e6; }

class ScheduleBench {
 public:
  ScheduleBench(model::Model& model, const text::Tokenizer& tokenizer, std::vector<TraceRequest> trace)
      : model_(model), tokenizer_(tokenizer), trace_(std::move(trace)), prompts_(prompts_of(trace_, model.info().vocab_size, kSeed)) {
    for (const TraceRequest& request : trace_) tenants_.emplace(request.tenant, static_cast<int>(tenants_.size()));
  }

  /// How much faster than in the trace requests have to arrive so that work waits; from one request alone.
  Result<double> find_speed(const Need& need) {
    constexpr int kProbePrompt = 256, kProbeNew = 33;
    engine::Engine engine(std::make_unique<BorrowedRunner>(model_), tokenizer_, engine_options(need));
    engine::Usage usage;
    for (int i = 0; i < 2; ++i) {  // the first warms up
      MILLRACE_TRY(handle, engine.submit(greedy_request(std::vector(kProbePrompt, prompts_[0][0]), kProbeNew)));
      MILLRACE_TRY(event, finish(handle));
      usage = event.usage;
    }
    double serial_us = 0;
    for (const TraceRequest& request : trace_)
      serial_us += static_cast<double>(usage.prefill_us) * request.prompt_tokens / kProbePrompt +
                   static_cast<double>(usage.decode_us) * request.new_tokens / (kProbeNew - 1);
    return std::max(trace_.back().arrival_s / (kArrivalShare * serial_us / 1e6), 1e-6);
  }

  Result<Row> run(std::string_view name, const Need& need, double speed) {
    engine::Engine engine(std::make_unique<BorrowedRunner>(model_), tokenizer_, engine_options(need));
    const Microseconds begun_us = now_us();
    std::vector<engine::Handle> handles;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      const auto due_us = begun_us + static_cast<Microseconds>((trace_[i].arrival_s - trace_[0].arrival_s) / speed * 1e6);
      std::this_thread::sleep_for(std::chrono::microseconds(due_us - now_us()));
      MILLRACE_TRY(handle, engine.submit(request_of(i)));
      handles.push_back(std::move(handle));
    }
    engine.drain(24h);  // nobody reads meanwhile: a client that wakes for each token would take time from the workers
    const Microseconds ended_us = now_us();

    std::vector<double> ttfts, gaps;
    int new_tokens = 0, preemptions = 0;
    for (engine::Handle& handle : handles) {
      MILLRACE_TRY(event, finish(handle));
      new_tokens += event.usage.completion_tokens;
      preemptions += event.usage.preemptions;
      ttfts.push_back(seconds(static_cast<std::uint64_t>(event.usage.ttft_us)));
      for (std::size_t i = 1; i < event.tokens.size(); ++i)
        gaps.push_back(seconds(static_cast<std::uint64_t>(event.tokens[i].at_us - event.tokens[i - 1].at_us)));
    }
    if (gaps.empty()) gaps.push_back(0);
    std::ranges::sort(ttfts), std::ranges::sort(gaps);

    const engine::EngineMetrics& m = engine.metrics();
    Row row{.schedule = std::string(name)};
    row.makespan_s = seconds(static_cast<std::uint64_t>(ended_us - begun_us));
    row.tokens_per_s = new_tokens / row.makespan_s;
    row.ttft_p50_s = nearest_rank(ttfts, 50), row.ttft_p99_s = nearest_rank(ttfts, 99);
    row.gap_p99_s = nearest_rank(gaps, 99), row.gap_max_s = gaps.back();
    row.utilisation = static_cast<double>(m.busy_us.value()) / static_cast<double>(std::max<std::uint64_t>(m.open_us.value(), 1));
    row.padding_waste = static_cast<double>(m.idle_slot_steps_total.value()) / static_cast<double>(std::max<std::uint64_t>(m.slot_steps_total.value(), 1));
    row.steps = m.steps_total.value(), row.mixed_steps = m.mixed_steps_total.value();
    row.decode_over_bound_steps = m.decode_over_bound_steps.value();
    row.preemptions = static_cast<std::uint64_t>(preemptions);
    row.host_share = static_cast<double>(m.host_us.sum()) / static_cast<double>(std::max<std::uint64_t>(m.host_us.sum() + m.busy_us.value(), 1));
    row.stall_s = {seconds(m.stall_host_us.value()), seconds(m.stall_slots_us.value()), seconds(m.stall_schedule_us.value()),
                   seconds(m.stall_blocks_us.value()), seconds(m.stall_prefill_us.value())};
    return row;
  }

 private:
  engine::Request request_of(std::size_t i) const {
    engine::Request request = greedy_request(prompts_[i], trace_[i].new_tokens);
    request.tenant = tenants_.at(trace_[i].tenant);
    return request;
  }

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  std::vector<TraceRequest> trace_;
  std::vector<std::vector<TokenId>> prompts_;
  std::map<std::string, int> tenants_;
};

/// KV cache for the largest kMaxRunning of them.
std::int64_t pool_tokens(const std::vector<TraceRequest>& trace, const Options& options) {
  std::vector<std::int64_t> needs;
  for (const TraceRequest& request : trace) needs.push_back(in_blocks(std::int64_t{request.prompt_tokens} + request.new_tokens, options));
  std::ranges::sort(needs, std::greater());
  needs.resize(std::min<std::size_t>(needs.size(), kMaxRunning));
  return std::accumulate(needs.begin(), needs.end(), std::int64_t{0});
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json object = {{"schedule", row.schedule},       {"tokens_per_s", row.tokens_per_s},
                                   {"ttft_p50_s", row.ttft_p50_s},   {"ttft_p99_s", row.ttft_p99_s},
                                   {"gap_p99_s", row.gap_p99_s},     {"gap_max_s", row.gap_max_s},
                                   {"utilisation", row.utilisation}, {"padding_waste", row.padding_waste},
                                   {"makespan_s", row.makespan_s},   {"steps", row.steps},
                                   {"mixed_steps", row.mixed_steps}, {"decode_over_bound_steps", row.decode_over_bound_steps},
                                   {"preemptions", row.preemptions}, {"host_share", row.host_share}};
  for (std::size_t i = 0; i < kCauses.size(); ++i) object["stall_s"][kCauses[i]] = row.stall_s[i];
  return object;
}

std::string to_text(const std::vector<Row>& rows, double speed) {
  std::string out = fmt::format("arrivals {:.1f} times as fast as in the trace\n{:10} {:>9} {:>9} {:>9} {:>8} {:>8} {:>6} {:>8}   stall s: host  slots  schedule  blocks  prefill\n",
                                speed, "schedule", "tokens/s", "ttft p50", "ttft p99", "gap p99", "gap max", "busy", "padding");
  for (const Row& row : rows)
    out += fmt::format("{:10} {:9.1f} {:8.2f}s {:8.2f}s {:7.3f}s {:7.3f}s {:5.1f}% {:7.1f}%   {:13.2f} {:6.1f} {:9.1f} {:7.1f} {:8.1f}\n", row.schedule,
                       row.tokens_per_s, row.ttft_p50_s, row.ttft_p99_s, row.gap_p99_s, row.gap_max_s, 100 * row.utilisation,
                       100 * row.padding_waste, row.stall_s[0], row.stall_s[1], row.stall_s[2], row.stall_s[3], row.stall_s[4]);
  const Row& serial = rows.front();
  const Row& mixed = rows.back();
  return out + fmt::format("mixed against serial: {:.2f} times the tokens per second, {:.2f} times the median time to first token\n",
                           mixed.tokens_per_s / serial.tokens_per_s, mixed.ttft_p50_s / serial.ttft_p50_s);
}

}  // namespace

Result<int> run_bench_schedule(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  std::vector<TraceRequest> trace = make_trace(kMadeRequests, kSeed);
  if (!options.trace.empty()) {
    MILLRACE_TRY(read, read_trace(options.trace));
    trace = std::move(read);
  }
  for (const TraceRequest& request : trace)
    if (std::int64_t{request.prompt_tokens} + request.new_tokens > config.max_positions)
      return error(Code::unsupported, "the trace has a request of {} plus {} tokens, the context of '{}' is {}", request.prompt_tokens,
                   request.new_tokens, options.model, config.max_positions);

  const Need asked{.pool_tokens = pool_tokens(trace, options), .max_running = kMaxRunning, .max_step_us = max_step_us(options), .prints_memory = !options.json};
  MILLRACE_TRY(need, within_memory(bundle, config, options, asked));
  MILLRACE_TRY(model, load_weights(bundle, config, options, need));
  ScheduleBench bench(*model, *bundle.tokenizer, trace);
  double speed = options.speed;
  if (speed == 0) {
    MILLRACE_TRY(found, bench.find_speed(need));
    speed = found;
  }
  std::vector<Row> rows;
  for (const std::string_view name : {"serial", "static", "mixed"}) {
    need.schedule = schedule_of(name);
    MILLRACE_TRY(row, bench.run(name, need, speed));
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json object = {{"speed", speed}, {"max_step_ms", options.max_step_ms}, {"max_running", kMaxRunning}, {"requests", trace.size()}};
  for (const Row& row : rows) object["rows"].push_back(to_json(row));
  MILLRACE_TRY_VOID(write_report(options.json, object, to_text(rows, speed)));
  return 0;
}

}  // namespace millrace::cli
