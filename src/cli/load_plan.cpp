#include "cli/load_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace millrace::cli {
namespace {

// Each is one token behind a blank in most vocabularies, so that a prompt of n words has little more than n tokens.
constexpr auto kWords = std::to_array<std::string_view>(
    {"the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "and", "runs", "away", "from", "big", "old", "house", "near", "river",
     "where", "many", "people", "live", "work", "play", "every", "single", "day"});

constexpr int kStallStreams = 3, kStallPromptWords = 20, kStallStreamTokens = 240, kStallLongTokens = 8;
constexpr double kStallLong_s = 3;

Microseconds in_us(double seconds) { return static_cast<Microseconds>(seconds * 1e6); }

Lengths fixed(int n) { return {.kind = Lengths::Kind::fixed, .least = n, .most = n}; }

}  // namespace

LoadSpec scenario_spec(std::string_view scenario, int words, double rate) {
  LoadSpec spec;
  spec.scenario = scenario;
  if (scenario == "stall") {
    spec.requests = kStallStreams + 1;
    spec.prompt_words = fixed(words > 0 ? words : 4000);  // of the long one
    spec.answer_tokens = fixed(kStallStreamTokens);       // of the streams
  } else if (scenario == "shared") {
    spec.requests = 24, spec.concurrency = 8;
    spec.prefix_words = words > 0 ? words : 1000;
    spec.prompt_words = fixed(30), spec.answer_tokens = fixed(48);
  } else {
    spec.requests = 32, spec.concurrency = 64;
    spec.arrivals = Arrivals::poisson, spec.rate = rate > 0 ? rate : 2;
    spec.prompt_words = {.kind = Lengths::Kind::lognormal, .least = 1, .most = words > 0 ? words : 800, .median = std::exp(4.6), .spread = 0.8};
    spec.answer_tokens = {.kind = Lengths::Kind::lognormal, .least = 4, .most = 160, .median = std::exp(3.6), .spread = 0.7};
  }
  return spec;
}

LoadSpec warmup_spec(LoadSpec spec, int n) {
  if (spec.scenario == "stall") spec.scenario.clear();
  spec.requests = n, spec.duration_s = 0, spec.arrivals = Arrivals::at_once, spec.speed = 1e9;
  spec.seed += 1'000'003;
  return spec;
}

LoadPlan::LoadPlan(LoadSpec spec)
    : spec_(std::move(spec)),
      arrivals_(static_cast<unsigned>(spec_.seed * 3)),
      lengths_(static_cast<unsigned>(spec_.seed * 3 + 1)),
      texts_(static_cast<unsigned>(spec_.seed * 3 + 2)) {
  if (!spec_.trace.empty()) spec_.requests = std::min(spec_.requests, static_cast<int>(spec_.trace.size()));
  find_due();
}

std::string LoadPlan::words(int n) {
  std::string out;
  for (int i = 0; i < n; ++i) {
    if (i > 0) out += ' ';
    out += kWords[texts_.below(kWords.size())];
  }
  return out;
}

const std::string& LoadPlan::prefix_of(const std::string& group, int n) {
  auto& known = prefixes_[group];
  while (static_cast<int>(known.size()) < n) known.push_back(words(1));
  prefix_ = fmt::format("group {}:", group);  // two groups differ from the start
  for (int i = 0; i < n; ++i) prefix_.append(" ").append(known[static_cast<std::size_t>(i)]);
  return prefix_ += '\n';
}

void LoadPlan::find_due() {
  due_us_.reset();
  if (taken_ >= spec_.requests) return;
  if (!spec_.trace.empty()) {
    const auto& trace = spec_.trace;
    arrival_s_ = (trace[static_cast<std::size_t>(taken_)].arrival_s - trace[0].arrival_s) / spec_.speed;
  } else if (spec_.scenario == "stall") {
    arrival_s_ = taken_ < kStallStreams ? 0 : kStallLong_s;
  } else if (spec_.arrivals != Arrivals::at_once && taken_ > 0 && taken_ % spec_.burst == 0) {
    const double mean_s = spec_.burst / spec_.rate;
    arrival_s_ += spec_.arrivals == Arrivals::poisson ? arrivals_.gap(mean_s) : mean_s;
  }
  if (spec_.duration_s > 0 && arrival_s_ >= spec_.duration_s) return;
  due_us_ = in_us(arrival_s_);
}

LoadRequest LoadPlan::from_trace(int number) {
  const TraceRequest& one = spec_.trace[static_cast<std::size_t>(number)];
  LoadRequest out;
  if (!one.prefix_group.empty() && one.prefix_tokens > 0) out.prefix = prefix_of(one.prefix_group, one.prefix_tokens);
  out.prompt = fmt::format("question {}: {}", number, words(std::max(one.prompt_tokens - one.prefix_tokens, 1)));
  out.answer_tokens = one.new_tokens;
  return out;
}

LoadRequest LoadPlan::make(int number) {
  if (!spec_.trace.empty()) return from_trace(number);
  LoadRequest out;
  out.is_long = spec_.scenario == "stall" && number >= kStallStreams;
  const bool is_stream = spec_.scenario == "stall" && !out.is_long;
  if (spec_.prefix_words > 0) {
    const auto group = spec_.prefix_groups > 1 ? lengths_.below(static_cast<unsigned>(spec_.prefix_groups)) : 0;
    out.prefix = prefix_of(std::to_string(group), spec_.prefix_words);
  }
  const int n = is_stream ? kStallPromptWords : spec_.prompt_words.draw(lengths_);
  out.prompt = fmt::format("question {}: {}", number, words(n));  // the number first: prompts share nothing by chance
  out.answer_tokens = out.is_long ? kStallLongTokens : spec_.answer_tokens.draw(lengths_);
  return out;
}

LoadRequest LoadPlan::take() {
  MILLRACE_CHECK(due_us_, "a request is left");
  LoadRequest out = make(taken_++);
  const bool has_time = spec_.arrivals != Arrivals::at_once || !spec_.trace.empty() || spec_.scenario == "stall";
  out.due_us = has_time ? *due_us_ : kWhenThereIsRoom;
  find_due();
  return out;
}

}  // namespace millrace::cli
