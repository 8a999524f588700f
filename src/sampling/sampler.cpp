#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "sampling/row_loops.h"
#include "sampling/selection.h"
#include "sampling/typical.h"

namespace millrace::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity(), kForever = -kNever;

/// What lies in the working memory, the widest first.
struct Scratch {
  std::span<double> chunk_sums;  // [chunks]
  std::span<float> chunk_peaks;  // [chunks]
  std::span<float> weights;      // [vocab]
  std::span<TokenId> tokens;     // [vocab]

  Scratch(std::span<std::byte> memory, std::size_t vocab) {
    MILLRACE_CHECK(memory.size() >= scratch_bytes(vocab) && reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(double) == 0,
                   std::to_string(memory.size()) + " bytes of scratch for a vocabulary of " + std::to_string(vocab));
    const auto next = [&](auto& part, std::size_t n) {
      using T = typename std::remove_reference_t<decltype(part)>::element_type;
      part = {reinterpret_cast<T*>(memory.data()), n};
      memory = memory.subspan(n * sizeof(T));
    };
    next(chunk_sums, chunks_of(vocab)), next(chunk_peaks, chunks_of(vocab)), next(weights, vocab), next(tokens, vocab);
  }
};

template <class T>
T& at(std::span<T> row, TokenId token) { return row[static_cast<std::size_t>(token)]; }

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
TokenId draw(std::span<const TokenId> tokens, std::span<const float> weights, double u) {
  double total = 0;
  for (const TokenId token : tokens) total += at(weights, token);
  double left = u * total;
  TokenId last = -1;
  for (const TokenId token : tokens) {
    if (at(weights, token) <= 0) continue;
    last = token;
    left -= at(weights, token);
    if (left < 0) break;
  }
  return last;
}

/// The same over what is kept of a row. The first chunk whose running sum exceeds it has the token.
template <class Keeps>
TokenId draw(std::span<const float> logits, const Keeps& kept, double total, double u, const Scratch& scratch) {
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

/// The largest logit, NaN and infinities cleared away.
float clean_peak(std::span<float> logits, const Scratch& scratch) {
  Peak peak = find_peak(logits, scratch.chunk_peaks);
  if (peak.broken) {
    mend(logits);
    peak = find_peak(logits, scratch.chunk_peaks);
  }
  return peak.logit;
}

/// All weights, in one pass over the row where an estimate serves for its peak. A peak of -inf: there are none.
struct WeighedRow {
  Scale scale;
  Bounds near_cut;  // sums.from_bound is of the first of them on
  Weighed sums;
};
WeighedRow weigh_row(std::span<float> logits, const Params& params, const Scratch& scratch) {
  WeighedRow row{{0, rate_of(params.temperature)}, {kForever, kForever, kForever, kForever}, {}};
  const auto weigh_on = [&](float reference) {
    row.scale.reference = reference;
    row.sums = weigh(logits, row.scale, row.near_cut[0], scratch.weights, scratch.chunk_sums, scratch.chunk_peaks);
  };
  if (logits.size() >= kLeastForEstimate) {
    const Estimate guess = estimate(logits, row.scale.rate, params.top_p);
    if (params.top_p < 1) row.near_cut = guess.near_cut;
    if (guess.peak > kNever) {  // else most are masked
      weigh_on(guess.peak);
      const Peak& peak = row.sums.peak;
      if (!peak.broken && (peak.logit - guess.peak) * row.scale.rate <= kMostAbove) return row;
    }
  }
  const float peak = clean_peak(logits, scratch);
  if (peak == kNever) {
    row.sums.peak.logit = peak;
  } else {
    weigh_on(peak);
  }
  return row;
}

/// The least weight that min-p leaves.
float least_weight_of(const WeighedRow& row, const Params& params) {
  return params.min_p * two_to_minus((row.scale.reference - row.sums.peak.logit) * row.scale.rate);
}

/// Of what typical-p leaves of the tokens that `kept` has.
TokenId draw_typical(std::span<const float> logits, const WeighedRow& row, const Kept& kept, const Params& params, double u, const Scratch& scratch) {
  const std::span<float> weights = scratch.weights;
  for (std::size_t i = 0; i < logits.size(); ++i) weights[i] = kept.has(logits[i], static_cast<TokenId>(i), weights[i]) ? weights[i] : 0;
  const float least = std::max(row.scale.reference - 128 / row.scale.rate, kept.least_logit);
  const Typical typical = find_typical(logits, weights, least, row.sums.peak.logit, params.typical_p, scratch.tokens);
  double total = 0;
  for (std::size_t chunk = 0; chunk < scratch.chunk_sums.size(); ++chunk) {
    double sum = 0;
    for (std::size_t i = chunk * kChunk; i < std::min((chunk + 1) * kChunk, logits.size()); ++i)
      sum += typical.has(logits[i], static_cast<TokenId>(i), weights[i]) ? weights[i] : 0;
    total += scratch.chunk_sums[chunk] = sum;
  }
  return draw(logits, typical, total, u, scratch);
}

/// Of all that top-p, min-p and typical-p leave of the tokens of a weight above 0.
TokenId draw_kept(std::span<const float> logits, const WeighedRow& row, const Params& params, double u, const Scratch& scratch) {
  Nucleus nucleus{{kNever, static_cast<TokenId>(logits.size()) - 1}, 0};
  if (params.top_p < 1)
    nucleus = find_nucleus(logits, scratch.weights, row.scale, row.sums.peak.logit, params.top_p, row.sums.sum, row.near_cut, scratch.chunk_sums, scratch.tokens);
  const Kept kept(nucleus.cut.logit, nucleus.cut.token, least_weight_of(row, params));
  if (params.typical_p < 1) return draw_typical(logits, row, kept, params, u, scratch);
  const bool summed = params.top_p < 1 && params.min_p == 0;
  const double sum = summed ? nucleus.sum : kept_sum(logits, scratch.weights, kept, scratch.chunk_sums);
  return draw(logits, kept, sum, u, scratch);
}

/// `tokens` by rising id; all other weights are 0 then.
void keep_weights_of(std::span<const TokenId> tokens, std::span<float> weights) {
  std::size_t next = 0;
  for (const TokenId token : tokens) {
    std::fill(weights.begin() + static_cast<std::ptrdiff_t>(next), weights.begin() + token, 0.0f);
    next = static_cast<std::size_t>(token) + 1;
  }
  std::fill(weights.begin() + static_cast<std::ptrdiff_t>(next), weights.end(), 0.0f);
}

/// Of the k best.
TokenId draw_top_k(std::span<const float> logits, float max, const Params& params, double u, const Scratch& scratch) {
  constexpr std::size_t kFew = 2048;
  const std::span<float> weights = scratch.weights;
  std::span<TokenId> best = select_best(logits, scratch.chunk_peaks, params.top_k, scratch.tokens);
  const auto drop = [&](auto&& unfit) { best = {best.begin(), std::remove_if(best.begin(), best.end(), unfit)}; };
  const float rate = rate_of(params.temperature);
  double total = 0;
  for (const TokenId token : best) total += at(weights, token) = two_to_minus((max - at(logits, token)) * rate);
  if (best.size() > kFew) {  // passes over the row are quicker than to order them
    keep_weights_of(best, weights);
    WeighedRow row{{max, rate}, {kForever, kForever, kForever, kForever}, {0, 0, {max, false}}};
    row.sums.sum = kept_sum(logits, weights, Kept(kNever, static_cast<TokenId>(logits.size()) - 1, 0), scratch.chunk_sums);
    return draw_kept(logits, row, params, u, scratch);
  }
  if (params.top_p < 1) {
    const Cut cut = find_mass(logits, weights, best, double{params.top_p} * total);
    std::ranges::sort(best);  // sums have one order
    drop([&](TokenId token) { return !within(cut, at(logits, token), token); });
  }
  drop([&](TokenId token) { return at(weights, token) < params.min_p || at(weights, token) <= 0; });  // the largest weight is 1
  if (params.typical_p < 1) best = keep_typical(logits, weights, params.typical_p, best);
  return draw(best, weights, u);
}

/// Without typical-p. First from all: what top-p keeps has most of the mass, so that nearly every draw is
/// one of those; mostly it is even seen without another pass, since all from the bound on weigh less than the share. A
/// draw that is not kept is made again among those only. Whoever is kept with weight w, of W kept and T in all, is drawn
/// with w / T + (T - W) / T * w / W = w / W.
TokenId draw_any(std::span<const float> logits, const WeighedRow& row, const Params& params, const DrawKey& key, const Scratch& scratch) {
  const TokenId last = static_cast<TokenId>(logits.size()) - 1;
  const double total = row.sums.sum, mass = double{params.top_p} * total;
  const float least_weight = least_weight_of(row, params);
  const TokenId token = draw(logits, Kept(kNever, last, 0), total, uniform(key), scratch);
  const auto in_top_p = [&] {
    if (params.top_p == 1 || (at(logits, token) >= row.near_cut[0] && row.sums.from_bound < mass)) return true;
    return kept_sum(logits, scratch.weights, Kept(at(logits, token), token - 1, 0), scratch.chunk_sums) < mass;  // of all better ones
  };
  if (at(scratch.weights, token) >= least_weight && in_top_p()) return token;

  return draw_kept(logits, row, params, second_uniform(key), scratch);
}

/// Of a row with a finite logit, cleaned; chunk_peaks are its own.
class Logprobs {
 public:
  Logprobs(std::span<const float> logits, float max) : logits_(logits), log_sum_(std::log(exp_sum(logits, max, rate_of(1))) + max) {}
  float of(TokenId token) const { return static_cast<float>(at(logits_, token) - log_sum_); }

  /// The `n` best tokens, best first.
  std::span<const TokenId> best(int n, const Scratch& scratch) const {
    if (n == 0) return {};
    const std::span<TokenId> best = select_best(logits_, scratch.chunk_peaks, n, scratch.tokens);
    std::ranges::sort(best, better_by(logits_));
    return best;
  }

 private:
  std::span<const float> logits_;
  double log_sum_;
};

void add_logprobs(std::span<const float> logits, float max, int n, const Scratch& scratch, Sampled& sampled) {
  const Logprobs logprobs(logits, max);
  sampled.logprob = logprobs.of(sampled.token);
  for (const TokenId token : logprobs.best(n, scratch)) sampled.top.push_back({token, logprobs.of(token)});
}

}  // namespace

std::size_t scratch_bytes(std::size_t vocab) {
  return chunks_of(vocab) * (sizeof(double) + sizeof(float)) + vocab * (sizeof(float) + sizeof(TokenId));
}

void sample(std::span<float> logits, std::span<const std::uint32_t> allowed, const TokenCounts& counts, const Params& params,
            const DrawKey& key, std::span<std::byte> memory, Sampled& sampled) {
  MILLRACE_CHECK(!logits.empty(), "a vocabulary has at least one token");
  MILLRACE_CHECK(allowed.empty() || allowed.size() == (logits.size() + 31) / 32,
                 "the mask has " + std::to_string(allowed.size()) + " words");
  const Scratch scratch(memory, logits.size());
  apply_bias(logits, params);
  apply_penalties(logits, counts, params);
  apply_mask(logits, allowed);
  const bool greedy = params.temperature == 0 || params.top_k == 1;
  const bool few = !greedy && params.top_k > 0 && params.top_k < static_cast<int>(logits.size());
  WeighedRow row{};
  if (!greedy && !few) row = weigh_row(logits, params, scratch);
  const float max = greedy || few ? clean_peak(logits, scratch) : row.sums.peak.logit;
  sampled.logprob = 0;
  sampled.top.clear();
  if (max == kNever) {
    sampled.token = lowest_allowed(allowed);
    return;
  }
  sampled.token = greedy ? best_token(logits, max, scratch.chunk_peaks)
                  : few  ? draw_top_k(logits, max, params, uniform(key), scratch)
                  : params.typical_p < 1 ? draw_kept(logits, row, params, uniform(key), scratch)
                                         : draw_any(logits, row, params, key, scratch);
  if (params.top_logprobs >= 0) add_logprobs(logits, max, params.top_logprobs, scratch, sampled);
}

RowLogprobs row_logprobs(std::span<const float> logits, TokenId token, std::span<TokenLogprob> top, std::span<std::byte> memory) {
  MILLRACE_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size(), "token " + std::to_string(token) + " is in no row of " + std::to_string(logits.size()));
  const Scratch scratch(memory, logits.size());
  Peak peak = find_peak(logits, scratch.chunk_peaks);
  if (peak.broken) {
    std::ranges::copy(logits, scratch.weights.begin());
    mend(scratch.weights);
    logits = scratch.weights;
    peak = find_peak(logits, scratch.chunk_peaks);
  }
  if (peak.logit == kNever) return {{kNever, 1}, 0};
  const Logprobs logprobs(logits, peak.logit);
  const float more = std::nextafter(at(logits, token), kForever);
  RowLogprobs out{{logprobs.of(token), 1 + static_cast<int>(counts_from(logits, {more, more, more, more})[0])}, 0};
  for (const TokenId best : logprobs.best(static_cast<int>(top.size()), scratch)) top[static_cast<std::size_t>(out.n_top++)] = {best, logprobs.of(best)};
  return out;
}

}  // namespace millrace::sampling
