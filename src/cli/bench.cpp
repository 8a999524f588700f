// bench: prefill and decode through the engine, beside the roof measured in the same run. Random tokens: speed does not
// depend on what they say. Decode rates are read from the engine's token counter over whole steps in which every stream
// decodes, so that no prefill is in them.

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/bench_modes.h"
#include "cli/bench_report.h"
#include "cli/bench_requests.h"
#include "cli/output.h"
#include "cli/session.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kPrefillTokens = 512, kPromptTokens = 128, kRepeats = 3;
constexpr int kLongPrefill = 4096, kLongContext = 8192;
constexpr int kBatches[] = {1, 8, 32};
constexpr int kWindowSteps = 32;                    // decode steps that one measurement spans
constexpr Microseconds kWindowLimit_us = 8'000'000;  // or as many as fit in this, on slow machines
constexpr int kMostBatch = 32;

class Bench {
 public:
  Bench(engine::Engine& engine, int vocab_size) : engine_(engine), vocab_size_(vocab_size) {}

  /// Tokens per second of a prompt.
  Result<double> prefill(int tokens) {
    std::vector<double> rates;
    for (int i = 0; i <= kRepeats; ++i) {  // the first warms up
      MILLRACE_TRY(handle, engine_.submit(request(tokens, 1)));
      MILLRACE_TRY(event, finish(handle));
      if (i > 0) rates.push_back(tokens * 1e6 / static_cast<double>(std::max<Microseconds>(event.usage.prefill_us, 1)));
    }
    return median(std::move(rates));
  }

  struct Decode { double tokens_per_s, mean_context; };

  /// All streams together, each behind a prompt of its own.
  Result<Decode> decode(int batch, int prompt_tokens) {
    std::vector<engine::Handle> handles;
    for (int i = 0; i < batch; ++i) {
      MILLRACE_TRY(handle, engine_.submit(request(prompt_tokens, answer_tokens(batch))));
      handles.push_back(std::move(handle));
    }
    for (engine::Handle& handle : handles) MILLRACE_TRY_VOID(wait_for_first_token(handle));
    std::vector<double> rates;
    for (int i = 0; i < kRepeats; ++i) rates.push_back(one_window(batch));
    const double context = prompt_tokens + answer_tokens(batch) / 2.0;
    for (engine::Handle& handle : handles) handle.cancel();
    for (engine::Handle& handle : handles) MILLRACE_TRY_VOID(finish(handle));
    return Decode{median(std::move(rates)), context};
  }

  /// Long enough that the first stream still decodes when the last window closes: the others start up to
  /// batch * kPromptTokens / step tokens later.
  static int answer_tokens(int batch) { return kRepeats * (kWindowSteps + 2) + 2 * batch + 16; }

 private:
  engine::Request request(int prompt_tokens, int new_tokens) { return greedy_request(random_tokens(random_, prompt_tokens, vocab_size_), new_tokens); }

  static Result<void> wait_for_first_token(engine::Handle& handle) {
    for (;;) {
      const auto event = handle.next(1000ms);
      if (!event) continue;
      if (event->error) return *event->error;
      if (!event->tokens.empty()) return {};
    }
  }

  /// Sleeps until the engine has delivered another step; the time at which that was seen. Looks some sixteen times a
  /// step: more would take time from the workers.
  Microseconds next_step(std::uint64_t& steps, Microseconds step_us) const {
    const auto pause = std::chrono::microseconds(std::clamp<Microseconds>(step_us / 16, 50, 5000));
    while (engine_.metrics().steps_total.value() == steps) std::this_thread::sleep_for(pause);
    steps = engine_.metrics().steps_total.value();
    return now_us();
  }

  /// Tokens per second over kWindowSteps steps, from step border to step border.
  double one_window(int batch) const {
    std::uint64_t steps = engine_.metrics().steps_total.value();
    const Microseconds start_us = next_step(steps, 0);
    const std::uint64_t first = steps;
    Microseconds now = start_us;
    while (steps < first + kWindowSteps && (now - start_us < kWindowLimit_us || steps < first + 3))
      now = next_step(steps, steps > first ? (now - start_us) / static_cast<Microseconds>(steps - first) : 0);
    return static_cast<double>(steps - first) * batch * 1e6 / static_cast<double>(std::max<Microseconds>(now - start_us, 1));
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  engine::Engine& engine_;
  int vocab_size_;
  std::mt19937 random_{1};
};

}  // namespace

Result<int> run_bench_speed(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  const int least_context = options.long_context ? kLongContext + Bench::answer_tokens(1) : kPrefillTokens + 1;
  if (config.max_positions < least_context)
    return error(Code::unsupported, "bench needs a context of {} tokens, '{}' has {}", least_context, options.model, config.max_positions);
  MILLRACE_TRY(isa, isa_of(options));
  const int threads = threads_of(options);

  Need need{.pool_tokens = kMostBatch * in_blocks(kPromptTokens + Bench::answer_tokens(kMostBatch), options), .max_running = kMostBatch, .prefix_sharing = false};
  if (options.long_context) need.pool_tokens = std::max(need.pool_tokens, in_blocks(least_context, options));
  const std::int64_t least_pool = need.pool_tokens;
  need.prints_memory = !options.json;
  MILLRACE_TRY(fitted, within_memory(bundle, config, options, need));
  if (fitted.pool_tokens < least_pool)
    return error(Code::invalid_argument, "--kv-memory {} holds {} tokens, bench runs with {}", options.kv_memory, fitted.pool_tokens, least_pool);
  need = fitted;
  MILLRACE_TRY(load, load_options(options, need));
  MILLRACE_TRY(memory, model::estimate_memory(*bundle.source, config, load));
  BenchReport report{.file = bundle.path,
                     .arch = config.architecture,
                     .isa = isa,
                     .threads = threads,
                     .roof = measure_roof(isa, threads),
                     .costs = costs_of(*bundle.source, config, memory.token_weights_bytes, memory.kv_bytes_per_token),
                     .rows = {},
                     .ops = {}};
  MILLRACE_TRY(model, load_weights(bundle, config, options, need));
  MILLRACE_TRY(ops, time_ops(*model, kPrefillTokens, kBatches, kPromptTokens));
  if (options.long_context) {
    MILLRACE_TRY(later, time_long_ops(*model, kLongPrefill, kPrefillTokens, kLongContext));
    ops.insert(ops.end(), later.begin(), later.end());
  }
  report.ops = std::move(ops);
  MILLRACE_TRY(session, start_engine(std::move(bundle), config, options, std::move(model), need));
  Bench bench(*session.engine, config.vocab_size);
  MILLRACE_TRY(prefill, bench.prefill(kPrefillTokens));
  report.add_prefill(kPrefillTokens, prefill);
  for (const int batch : kBatches) {
    MILLRACE_TRY(decode, bench.decode(batch, kPromptTokens));
    report.add_decode(batch, decode.tokens_per_s, decode.mean_context);
  }
  if (options.long_context) {
    MILLRACE_TRY(long_prefill, bench.prefill(kLongPrefill));
    report.add_prefill(kLongPrefill, long_prefill);
    MILLRACE_TRY(decode, bench.decode(1, kLongContext));
    report.add_decode(1, decode.tokens_per_s, decode.mean_context, decode_behind(kLongContext));
  }
  MILLRACE_TRY_VOID(write_report(options.json, report.to_json(), report.to_text()));
  return 0;
}

}  // namespace millrace::cli
