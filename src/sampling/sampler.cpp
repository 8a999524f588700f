#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"
#include "sampling/selection.h"
#include "sampling/softmax.h"

namespace millrace::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Working memory, one per thread: a vocabulary's worth is not allocated again for each token.
struct Scratch {
  std::vector<float> weights;
  std::vector<Candidate> candidates;
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

bool filters(const Params& params, int vocab) {
  return (params.top_k > 0 && params.top_k < vocab) || params.top_p < 1 || params.min_p > 0;
}

/// What top-k, top-p and min-p leave, with weights, by rising id: the order in which the draw walks.
void select_candidates(std::span<const float> logits, float max, const Params& params, Scratch& scratch) {
  auto& candidates = scratch.candidates;
  const int vocab = static_cast<int>(logits.size());
  if (params.top_k > 0 && params.top_k < vocab) {
    select_best(logits, params.top_k, candidates);
    double total = 0;
    for (Candidate& c : candidates) total += c.weight = exp_of_negative((c.logit - max) / params.temperature);
    if (params.top_p < 1) {
      const Cut cut = find_mass(candidates, double{params.top_p} * total);
      std::erase_if(candidates, [&](const Candidate& c) { return !within(cut, c.logit, c.token); });
    }
    // The largest weight is 1.
    std::erase_if(candidates, [&](const Candidate& c) { return c.weight < params.min_p; });
    std::ranges::sort(candidates, {}, &Candidate::token);
    return;
  }
  scratch.weights.resize(logits.size());
  const double total = exp_sum(logits, max, params.temperature, scratch.weights);
  Cut cut{kNever, vocab};  // all are within
  if (params.top_p < 1)
    cut = find_mass(logits, scratch.weights, max, params.temperature, double{params.top_p} * total, candidates);
  candidates.clear();
  for (int i = 0; i < vocab; ++i) {
    const float weight = scratch.weights[static_cast<std::size_t>(i)], logit = logits[static_cast<std::size_t>(i)];
    if (weight >= params.min_p && within(cut, logit, i)) candidates.push_back({i, logit, weight});
  }
}

/// The first whose running sum exceeds u * total; u in [0, 1).
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

TokenId draw_unfiltered(std::span<const float> logits, float max, const Params& params, double u, Scratch& scratch) {
  scratch.weights.resize(logits.size());
  double left = u * exp_sum(logits, max, params.temperature, scratch.weights);
  TokenId last = -1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (scratch.weights[i] <= 0) continue;
    last = static_cast<TokenId>(i);
    left -= scratch.weights[i];
    if (left < 0) break;
  }
  return last;
}

void add_logprobs(std::span<const float> logits, float max, int n, Scratch& scratch, Sampled& sampled) {
  const double log_sum = std::log(exp_sum(logits, max, 1.0f, {})) + max;
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  sampled.logprob = logprob(logits[static_cast<std::size_t>(sampled.token)]);
  if (n == 0) return;
  select_best(logits, n, scratch.candidates);
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
  const float max = clean(logits);
  Sampled sampled;
  if (max == kNever) {
    sampled.token = lowest_allowed(allowed);
    return sampled;
  }
  if (params.temperature == 0 || params.top_k == 1) {
    sampled.token = static_cast<TokenId>(std::ranges::find(logits, max) - logits.begin());
  } else if (filters(params, static_cast<int>(logits.size()))) {
    select_candidates(logits, max, params, scratch);
    sampled.token = draw(scratch.candidates, uniform(key));
  } else {
    sampled.token = draw_unfiltered(logits, max, params, uniform(key), scratch);
  }
  if (params.top_logprobs >= 0) add_logprobs(logits, max, params.top_logprobs, scratch, sampled);
  return sampled;
}

}  // namespace millrace::sampling
