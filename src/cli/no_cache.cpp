#include "cli/no_cache.h"

#include <algorithm>
#include <random>

#include "cli/bench_requests.h"

namespace millrace::cli {
namespace {

constexpr int kMeasuredTokens = 3, kRepeats = 3, kDecodes = 64;

/// One prompt of random tokens and its answer.
Result<engine::Usage> run(engine::Engine& engine, int vocab_size, int prompt_tokens, int new_tokens) {
  std::mt19937 random(static_cast<unsigned>(prompt_tokens));
  MILLRACE_TRY(handle, engine.submit(greedy_request(random_tokens(random, prompt_tokens, vocab_size), new_tokens)));
  MILLRACE_TRY(event, finish(handle));
  return event.usage;
}

/// Seconds of the middle one of a few.
Result<double> prefill_s(engine::Engine& engine, int vocab_size, int tokens) {
  std::vector<double> all;
  for (int i = 0; i < kRepeats; ++i) {
    MILLRACE_TRY(usage, run(engine, vocab_size, tokens, 1));
    all.push_back(static_cast<double>(usage.prefill_us) * 1e-6);
  }
  std::ranges::sort(all);
  return all[all.size() / 2];
}

}  // namespace

Result<NoCacheCost> measure_no_cache(engine::Engine& engine, int vocab_size) {
  NoCacheCost cost{.prompt_tokens = kNoCachePrompt, .new_tokens = kNoCacheNew, .measured_tokens = kMeasuredTokens};
  MILLRACE_TRY(prompt, prefill_s(engine, vocab_size, kNoCachePrompt));  // also warms up
  cost.prefill_s = prompt;
  MILLRACE_TRY(longest, prefill_s(engine, vocab_size, kNoCachePrompt + kNoCacheNew - 1));
  for (int i = 0; i < kMeasuredTokens; ++i) {
    MILLRACE_TRY(usage, run(engine, vocab_size, kNoCachePrompt + i, 1));
    cost.measured_s += static_cast<double>(usage.prefill_us) * 1e-6;
  }
  // Time is a n + b n^2 through both lengths: products with weights are linear, attention is quadratic.
  const double n = kNoCachePrompt, m = kNoCachePrompt + kNoCacheNew - 1;
  const double b = (longest / m - prompt / n) / (m - n), a = prompt / n - b * n;
  cost.computed_s = cost.measured_s;
  for (int i = kMeasuredTokens; i < kNoCacheNew; ++i) {
    const double length = kNoCachePrompt + i;
    cost.computed_s += (a + b * length) * length;
  }
  MILLRACE_TRY(decoded, run(engine, vocab_size, kNoCachePrompt, kDecodes));
  cost.with_cache_s = prompt + static_cast<double>(decoded.decode_us) * 1e-6 / (kDecodes - 1) * (kNoCacheNew - 1);
  return cost;
}

}  // namespace millrace::cli
