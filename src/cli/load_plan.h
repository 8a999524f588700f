#pragma once

// What a load asks, and when: arrivals, lengths and texts, all from one seed. Knows no server and no clock.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/draws.h"
#include "cli/load_lengths.h"
#include "cli/trace.h"

namespace millrace::cli {

enum class Arrivals { at_once, poisson, even };

struct LoadSpec {
  std::string scenario;  // "": what the other fields say; else one of kLoadScenarios, where only a few of them count
  int requests = 100;    // at most
  double duration_s = 0;  // no request is sent after it; 0: no bound
  int concurrency = 0;    // 0: no bound
  Arrivals arrivals = Arrivals::at_once;
  double rate = 0;  // requests a second, of poisson and even
  int burst = 1;    // that many arrive together
  Lengths prompt_words, answer_tokens;
  int prefix_words = 0, prefix_groups = 1;  // each prompt begins with the prefix of one of the groups
  std::vector<TraceRequest> trace;          // not empty: arrivals and lengths are its own, a token is a word
  double speed = 1;                         // of the trace's arrivals
  std::uint64_t seed = 1;
};

/// The loads that the figures of docs/performance.md are about, as an option row spells its choices.
inline constexpr std::string_view kLoadScenarios = "stall|shared|mixed";

inline constexpr Microseconds kWhenThereIsRoom = -1;

struct LoadRequest {
  Microseconds due_us = 0;  // since the load's start; kWhenThereIsRoom: it has no time of its own
  std::string prefix;       // a system message, or the beginning of the prompt
  std::string prompt;
  int answer_tokens = 1;
  bool is_long = false;  // scenario stall: the prompt that arrives beside the streams
};

/// The load of a scenario; `words` > 0 replaces its longest length, `rate` > 0 its arrivals.
///   stall   3 streams of 240 tokens; after 3 s a prompt of `words` (4000) words, 8 tokens
///   shared  24 requests, 8 at a time, behind one system prompt of `words` (1000) words, 48 tokens each
///   mixed   32 requests, Poisson arrivals (2 a second), long-tailed lengths
LoadSpec scenario_spec(std::string_view scenario, int words, double rate);

/// `n` requests as those of `spec`, as fast as its concurrency lets them, and all in other words: what they leave in the
/// server's cache helps nothing later.
LoadSpec warmup_spec(LoadSpec spec, int n);

/// Hands out a load's requests in order of arrival. The same for the same spec.
class LoadPlan {
 public:
  explicit LoadPlan(LoadSpec spec);

  const LoadSpec& spec() const { return spec_; }

  /// When the next request is due, or nothing when there is none left.
  std::optional<Microseconds> next_due_us() const { return due_us_; }
  LoadRequest take();

 private:
  std::string words(int n);
  const std::string& prefix_of(const std::string& group, int n);
  LoadRequest make(int number);
  LoadRequest from_trace(int number);
  void find_due();

  LoadSpec spec_;
  Draws arrivals_, lengths_, texts_;  // apart, so that a rate changes no prompt
  std::map<std::string, std::vector<std::string>> prefixes_;  // by group, word for word
  std::string prefix_;
  int taken_ = 0;
  double arrival_s_ = 0;
  std::optional<Microseconds> due_us_;
};

}  // namespace millrace::cli
