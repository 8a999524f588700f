#pragma once

// What a load showed of a server: arithmetic over the records, as text and as JSON. docs/performance.md defines each
// figure. Knows no socket and no clock.

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

#include "cli/load_client.h"

namespace millrace::cli {

/// Of one quantity; of nothing when n is 0.
struct Spread {
  std::size_t n = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};

Spread spread_of(std::vector<double> values);

/// What an answer has to keep to count as good; 0: not asked.
struct SloLimits {
  double ttft_ms = 0, tpot_ms = 0, e2e_ms = 0;

  bool any() const { return ttft_ms > 0 || tpot_ms > 0 || e2e_ms > 0; }
};

struct ErrorCount {
  int count = 0, status = 0;
  std::string sentence;
  double retry_after_s = -1;  // the longest that was asked for
};

struct Second {
  int sent = 0, done = 0, failed = 0, running = 0;  // running: at any time within it
  std::int64_t chunks = 0;                          // with text
};

/// Of the scenario stall: gaps of the streams that end after the long prompt was sent, and its first text.
struct StallFigures {
  Spread gap_s;
  double long_ttft_s = -1;  // -1: none came
};

struct ServeReport {
  std::string url, model, api, load;  // load: in words
  int sent = 0, done = 0, failed = 0, unfinished = 0, without_text = 0;
  int peak_running = 0;
  bool stopped = false;
  double wall_s = 0;  // from the first request's sending to the last end
  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0, chunks = 0;
  bool has_usage = false;  // of every answer; else chunks are counted
  Spread ttft_s, tpot_s, gap_s, e2e_s, late_s;
  SloLimits slo;
  int good = 0;
  double client_cpu_s = 0;
  std::vector<ErrorCount> errors;  // most frequent first
  std::optional<StallFigures> stall;
  std::vector<Second> timeline;

  double per_second(double n) const { return wall_s > 0 ? n / wall_s : 0; }
  double good_share() const { return done + failed > 0 ? static_cast<double>(good) / (done + failed) : 0; }

  nlohmann::ordered_json to_json() const;
  std::string to_text() const;
};

/// All figures but the words of the load. What a failed request had got so far counts nowhere; that of an unfinished one
/// counts, except for e2e, its tokens as chunks.
ServeReport report_on(const LoadResult& result, const SloLimits& slo, std::string_view scenario);

}  // namespace millrace::cli
