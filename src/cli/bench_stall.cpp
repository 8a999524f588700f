// bench stall: three streams decode, then a long prompt arrives (P8, P10). How long a stream waits for its next token
// then, and how much later the long prompt has its first token than it would alone. Random tokens.

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/bench_modes.h"
#include "cli/bench_requests.h"
#include "cli/output.h"
#include "cli/session.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kStreams = 3, kLongTokens = 4000, kStreamPrompt = 64, kStreamTokens = 2500;
constexpr auto kAlone = 1000ms;  // the streams decode that long before the prompt arrives

struct StallReport {
  double max_step_ms = 0;
  double gap_median_s = 0, gap_max_s = 0;              // while the prompt runs
  double gap_alone_median_s = 0, gap_alone_max_s = 0;  // before
  double ttft_s = 0, ttft_alone_s = 0;
  int overlap_tokens = 0;  // that the streams got while the prompt ran
  std::uint64_t steps = 0, decode_over_bound_steps = 0;
  double host_share = 0;

  double slowdown() const { return ttft_s / ttft_alone_s; }
};

class StallBench {
 public:
  StallBench(engine::Engine& engine, int vocab_size) : engine_(engine), vocab_size_(vocab_size) {}

  Result<StallReport> run() {
    StallReport report;
    MILLRACE_TRY(cold, ttft_alone());  // warms up
    (void)cold;
    MILLRACE_TRY(before, ttft_alone());
    MILLRACE_TRY_VOID(beside_streams(report));
    MILLRACE_TRY(after, ttft_alone());
    report.ttft_alone_s = (before + after) / 2;
    const engine::EngineMetrics& m = engine_.metrics();
    report.steps = m.steps_total.value();
    report.decode_over_bound_steps = m.decode_over_bound_steps.value();
    report.host_share = static_cast<double>(m.host_us.sum()) / static_cast<double>(m.host_us.sum() + m.busy_us.value());
    return report;
  }

 private:
  engine::Request request(int prompt_tokens, int new_tokens) { return greedy_request(random_tokens(random_, prompt_tokens, vocab_size_), new_tokens); }

  static double seconds(Microseconds us) { return static_cast<double>(us) / 1e6; }

  Result<double> ttft_alone() {
    MILLRACE_TRY(handle, engine_.submit(request(kLongTokens, 1)));
    MILLRACE_TRY(event, finish(handle));
    return seconds(event.usage.ttft_us);
  }

  Result<void> beside_streams(StallReport& report) {
    struct Stream {
      engine::Handle handle;
      Microseconds submitted_us;
    };
    std::vector<Stream> streams;
    for (int i = 0; i < kStreams; ++i) {
      const Microseconds now = now_us();
      MILLRACE_TRY(handle, engine_.submit(request(kStreamPrompt, kStreamTokens)));
      streams.push_back({std::move(handle), now});
    }
    std::this_thread::sleep_for(kAlone);
    const Microseconds arrived_us = now_us();
    MILLRACE_TRY(long_prompt, engine_.submit(request(kLongTokens, 1)));
    MILLRACE_TRY(event, finish(long_prompt));
    report.ttft_s = seconds(event.usage.ttft_us);
    const Microseconds through_us = arrived_us + event.usage.ttft_us;
    std::this_thread::sleep_for(100ms);  // the gap that was open then

    std::vector<double> gaps, gaps_alone;
    for (Stream& stream : streams) {
      stream.handle.cancel();
      MILLRACE_TRY(said, finish(stream.handle));
      for (std::size_t i = 1; i < said.tokens.size(); ++i) {
        const Microseconds begun_us = stream.submitted_us + said.tokens[i - 1].at_us, ended_us = stream.submitted_us + said.tokens[i].at_us;
        if (ended_us <= arrived_us) gaps_alone.push_back(seconds(ended_us - begun_us));
        else if (begun_us < through_us) gaps.push_back(seconds(ended_us - begun_us));
      }
    }
    if (gaps.empty() || gaps_alone.empty())
      return error(Code::exhausted, "the streams made no token before or beside the long prompt: the machine is too slow for this bench");
    std::ranges::sort(gaps);
    std::ranges::sort(gaps_alone);
    report.gap_median_s = gaps[gaps.size() / 2], report.gap_max_s = gaps.back();
    report.gap_alone_median_s = gaps_alone[gaps_alone.size() / 2], report.gap_alone_max_s = gaps_alone.back();
    report.overlap_tokens = static_cast<int>(gaps.size());
    return {};
  }

  engine::Engine& engine_;
  int vocab_size_;
  std::mt19937 random_{1};
};

nlohmann::ordered_json to_json(const StallReport& r) {
  return {{"streams", kStreams},
          {"prompt_tokens", kLongTokens},
          {"max_step_ms", r.max_step_ms},
          {"gap_max_s", r.gap_max_s},
          {"gap_median_s", r.gap_median_s},
          {"gap_alone_max_s", r.gap_alone_max_s},
          {"gap_alone_median_s", r.gap_alone_median_s},
          {"ttft_s", r.ttft_s},
          {"ttft_alone_s", r.ttft_alone_s},
          {"slowdown", r.slowdown()},
          {"overlap_tokens", r.overlap_tokens},
          {"steps", r.steps},
          {"decode_over_bound_steps", r.decode_over_bound_steps},
          {"host_share", r.host_share}};
}

std::string to_text(const StallReport& r) {
  return fmt::format(
      "{} streams decode, a prompt of {} tokens arrives; {}\n"
      "gap between tokens   alone: median {:.1f} ms, largest {:.1f} ms   beside the prompt: median {:.1f} ms, largest {:.1f} ms\n"
      "first token of the prompt   alone {:.2f} s   beside the streams {:.2f} s, {:.2f} times\n"
      "{} tokens of the streams while the prompt ran; {:.2f} % of the time between steps\n",
      kStreams, kLongTokens, r.max_step_ms > 0 ? fmt::format("steps of at most {} ms", r.max_step_ms) : "steps without a bound", 1e3 * r.gap_alone_median_s, 1e3 * r.gap_alone_max_s, 1e3 * r.gap_median_s, 1e3 * r.gap_max_s,
      r.ttft_alone_s, r.ttft_s, r.slowdown(), r.overlap_tokens, 100 * r.host_share);
}

}  // namespace

Result<int> run_bench_stall(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  const int least = std::max(kLongTokens + 1, kStreamPrompt + kStreamTokens);
  if (config.max_positions < least)
    return error(Code::unsupported, "bench stall needs a context of {} tokens, '{}' has {}", least, options.model, config.max_positions);
  const Need need{.pool_tokens = in_blocks(kLongTokens + 1, options) + kStreams * in_blocks(kStreamPrompt + kStreamTokens, options),
                  .prefix_sharing = false,
                  .max_step_us = max_step_us(options),
                  .prints_memory = !options.json};
  MILLRACE_TRY(session, start_session(std::move(bundle), config, options, need));
  StallBench bench(*session.engine, config.vocab_size);
  MILLRACE_TRY(report, bench.run());
  report.max_step_ms = options.max_step_ms;
  MILLRACE_TRY_VOID(write_report(options.json, to_json(report), to_text(report)));
  return 0;
}

}  // namespace millrace::cli
