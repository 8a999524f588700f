#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"
#include "sampling/row_loops.h"
#include "sampling/selection.h"

namespace millrace::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Working memory, one per thread: a vocabulary's worth is not allocated again for each token.
struct Scratch {
  std::vector<float> weights;       // [vocab]
  std::vector<TokenId> tokens;      // [vocab]
  std::vector<float> chunk_peaks;   // [chunks]
  std::vector<double> chunk_sums;   // [chunks]
  std::vector<Candidate> candidates;

  void fit(std::size_t vocab) {
    weights.resize(vocab), tokens.resize(vocab);
    chunk_peaks.resize(chunks_of(vocab)), chunk_sums.resize(chunks_of(vocab));
  }
};

float& at(std::span<float> logits, TokenId token) { return logits[static_cast<std::size_t>(token)]; }

void apply_bias(std::span<float> logits, const Params& params) {
  for (const auto& [token, bias] : params.logit_bias) at(logits, token) += bias;
}

/// Repetition: a positive logit is divided, a negative one multiplied (Keskar et al., "CTRL", 2019).
void apply_penalties(std::span<float> logits, const TokenCounts& counts, const Params& params) {
  if (params.repetition_penalty == 1 && params.presence_penalty == 0 && params.frequency_penalty == 0) return;
  for (const auto& [token, count] : counts.all()) {
    float& logit = at(logits, token);
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (count.generated > 0)
      logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count.generated);
  }
}

void apply_mask(std::span<float> logits, std::span<const std::uint32_t> allowed) {
  for (std::size_t word = 0; word < allowed.size(); ++word) {
    if (allowed[word] == ~std::uint32_t{0}) continue;
    const std::size_t end = std::min(word * 32 + 32, logits.size());
    for (std::size_t i = word * 32; i < end; ++i)
      if ((allowed[word] >> (i % 32) & 1) == 0) logits[i] = kNever;
  }
}

TokenId lowest_allowed(std::span<const std::uint32_t> allowed) {
  for (std::size_t word = 0; word < allowed.size(); ++word)
    if (allowed[word] != 0) return static_cast<TokenId>(word * 32) + std::countr_zero(allowed[word]);
  return 0;
}

/// Clears what no distribution can hold: NaN becomes -inf, +inf the largest float.
void mend(std::span<float> logits) {
  for (float& logit : logits) logit = logit == logit ? std::min(logit, std::numeric_limits<float>::max()) : kNever;
}

/// The lowest id among the best.
TokenId best_token(std::span<const float> logits, float max, std::span<const float> chunk_peaks) {
  const std::size_t begin = static_cast<std::size_t>(std::ranges::find(chunk_peaks, max) - chunk_peaks.begin()) * kChunk;
  return static_cast<TokenId>(std::find(logits.begin() + static_cast<std::ptrdiff_t>(begin), logits.end(), max) - logits.begin());
}

/// The first whose running sum exceeds u * total; u in [0, 1). By rising id.
TokenId draw(std::span<const Candidate> candidates, double u) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  double left = u * total;
  TokenId last = -1;
  for (const Candidate& c : candidates) {
    if (c.weight <= 0) continue;
    last = c.token;
    left -= c.weight;
    if (left < 0) break;
  }
  return last;
}

/// The same over what is kept of a row. The first chunk whose running sum exceeds it has the token.
TokenId draw(std::span<const float> logits, const Kept& kept, double total, double u, const Scratch& scratch) {
  double left = u * total;
  std::size_t chunk = 0;
  for (std::size_t c = 0; c < scratch.chunk_sums.size(); ++c) {
    if (scratch.chunk_sums[c] <= 0) continue;
    chunk = c;
    if (left < scratch.chunk_sums[c]) break;
    left -= scratch.chunk_sums[c];
  }
  TokenId last = -1;
  for (std::size_t i = chunk * kChunk; i < std::min((chunk + 1) * kChunk, logits.size()); ++i) {
    const float weight = scratch.weights[i];
    if (weight <= 0 || !kept.has(logits[i], static_cast<TokenId>(i), weight)) continue;
    last = static_cast<TokenId>(i);
    left -= weight;
    if (left < 0) break;
  }
  return last;
}

/// Of the k best.
TokenId draw_top_k(std::span<const float> logits, float max, const Params& params, double u, Scratch& scratch) {
  auto& candidates = scratch.candidates;
  select_best(logits, scratch.chunk_peaks, params.top_k, scratch.tokens, candidates);
  const float rate = rate_of(params.temperature);
  double total = 0;
  std::ranges::sort(candidates, {}, &Candidate::token);  // sums have one order
  for (Candidate& c : candidates) total += c.weight = exp_of_negative((c.logit - max) * rate);
  if (params.top_p < 1) {
    const Cut cut = find_mass(candidates, double{params.top_p} * total);
    std::erase_if(candidates, [&](const Candidate& c) { return !within(cut, c.logit, c.token); });
    std::ranges::sort(candidates, {}, &Candidate::token);
  }
  // The largest weight is 1.
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < params.min_p; });
  return draw(candidates, u);
}

/// Of all that top-p and min-p leave.
TokenId draw_any(std::span<const float> logits, float max, const Params& params, double u, Scratch& scratch) {
  const float rate = rate_of(params.temperature);
  Nucleus kept_by_top_p{{kNever, static_cast<TokenId>(logits.size()) - 1}, 0};  // all
  if (params.top_p < 1) {
    kept_by_top_p = find_nucleus(logits, max, rate, params.top_p, scratch.weights, scratch.chunk_sums, scratch.tokens, scratch.candidates);
  } else {
    kept_by_top_p.sum = exp_sum(logits, max, rate, scratch.weights, scratch.chunk_sums);
  }
  const Kept kept(kept_by_top_p.cut.logit, kept_by_top_p.cut.token, params.min_p);  // the largest weight is 1
  const double total = params.min_p > 0 ? kept_sum(logits, scratch.weights, kept, scratch.chunk_sums) : kept_by_top_p.sum;
  return draw(logits, kept, total, u, scratch);
}

void add_logprobs(std::span<const float> logits, float max, int n, Scratch& scratch, Sampled& sampled) {
  const double log_sum = std::log(exp_sum(logits, max, 1.0f, {}, {})) + max;
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  sampled.logprob = logprob(logits[static_cast<std::size_t>(sampled.token)]);
  if (n == 0) return;
  select_best(logits, scratch.chunk_peaks, n, scratch.tokens, scratch.candidates);
  std::ranges::sort(scratch.candidates, better);
  for (const Candidate& c : scratch.candidates)
    if (c.logit > kNever) sampled.top.push_back({c.token, logprob(c.logit)});
}

}  // namespace

Sampled sample(std::span<float> logits, std::span<const std::uint32_t> allowed, const TokenCounts& counts,
               const Params& params, const DrawKey& key) {
  MILLRACE_CHECK(!logits.empty(), "a vocabulary has at least one token");
  MILLRACE_CHECK(allowed.empty() || allowed.size() == (logits.size() + 31) / 32,
                 "the mask has " + std::to_string(allowed.size()) + " words");
  thread_local Scratch scratch;
  apply_bias(logits, params);
  apply_penalties(logits, counts, params);
  apply_mask(logits, allowed);
  scratch.fit(logits.size());
  Peak peak = find_peak(logits, scratch.chunk_peaks);
  if (peak.broken) {
    mend(logits);
    peak = find_peak(logits, scratch.chunk_peaks);
  }
  const float max = peak.logit;
  Sampled sampled;
  if (max == kNever) {
    sampled.token = lowest_allowed(allowed);
    return sampled;
  }
  if (params.temperature == 0 || params.top_k == 1) {
    sampled.token = best_token(logits, max, scratch.chunk_peaks);
  } else if (params.top_k > 0 && params.top_k < static_cast<int>(logits.size())) {
    sampled.token = draw_top_k(logits, max, params, uniform(key), scratch);
  } else {
    sampled.token = draw_any(logits, max, params, uniform(key), scratch);
  }
  if (params.top_logprobs >= 0) add_logprobs(logits, max, params.top_logprobs, scratch, sampled);
  return sampled;
}

}  // namespace millrace::sampling
