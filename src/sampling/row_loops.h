#pragma once

// The loops over a whole row of logits, [vocab] long: all that sampling does for every token of the vocabulary. Built
// for AVX-512, AVX2 and the baseline, and the CPU chooses; the bits are the same everywhere, because the order of all
// sums is fixed here and not by the compiler:
//
//   A row is cut into chunks of kChunk. Within a chunk element i is added to lane i % 16, as f32; lanes are folded
//   in halves (8 + 8, 4 + 4, ...), as f32; chunks are added in order, as f64.
//
// So a sum has at most kChunk / 16 + 4 f32 roundings, and one over more (positive) elements is never the smaller one.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"

namespace millrace::sampling {

inline constexpr std::size_t kChunk = 512;

constexpr std::size_t chunks_of(std::size_t n) { return (n + kChunk - 1) / kChunk; }

/// 2^-y for y >= -kMostAbove, relative error under 2^-22; 0 from 127 on (and for infinity).
float two_to_minus(float y);

/// What a logit's distance from the best is multiplied by, so that its weight e^(-distance / temperature) is two to minus
/// that. Finite for every temperature.
float rate_of(float temperature);

struct Peak {
  float logit = 0;      // the largest, NaN aside; -inf when there is none
  bool broken = false;  // the row holds NaN or +inf; weigh() may also say so of logits near the end of all floats
};

/// chunk_peaks[c] = the peak of chunk c.
Peak find_peak(std::span<const float> logits, std::span<float> chunk_peaks);

/// The sum of e^((logits[i] - reference) / temperature) for a rate; no logit is far above the reference.
double exp_sum(std::span<const float> logits, float reference, float rate);

/// Weights are 2^((logit - reference) * rate). Sums hold them as long as no logit is more than kMostAbove / rate above
/// the reference.
struct Scale { float reference, rate; };
inline constexpr float kMostAbove = 60;

struct Weighed {
  double sum, from_bound;  // of all weights; of those of a logit of at least the bound
  Peak peak;
};

/// Writes all weights, with the sum and the peak of each chunk.
Weighed weigh(std::span<const float> logits, const Scale& scale, float bound, std::span<float> weights,
              std::span<double> chunk_sums, std::span<float> chunk_peaks);

/// For each bound the sum of the weights whose logit is at least that.
inline constexpr std::size_t kBounds = 4;
using Bounds = std::array<float, kBounds>;
using BoundSums = std::array<double, kBounds>;
BoundSums sums_from(std::span<const float> logits, std::span<const float> weights, const Bounds& bounds);
/// And how many they are; bounds > -inf.
BoundSums counts_from(std::span<const float> logits, const Bounds& bounds);

/// Which weights a sum counts: those of at least `least_weight`, of a logit of at least `least_logit` up to and with
/// token `last` (-1: none), and of at least `more`, the next float, behind it.
struct Kept {
  Kept(float logit, TokenId last, float weight);
  bool has(float logit, TokenId token, float weight) const {
    return (weight >= least_weight) & (logit >= (token <= last ? least_logit : more));
  }

  float least_logit, more;
  TokenId last;
  float least_weight;
};

/// chunk_sums[c] = the sum of what chunk c keeps; returns the sum of all.
double kept_sum(std::span<const float> logits, std::span<const float> weights, const Kept& kept, std::span<double> chunk_sums);

/// Writes each i with low <= logits[i] < high to `tokens`, as long as `logits`, rising; low > -inf. Returns how many.
/// Ends early, some way behind it, where `enough` are found.
std::size_t find_between(std::span<const float> logits, float low, float high, std::size_t enough, std::span<TokenId> tokens);
/// All of them, and chunk_sums[c] = the sum of the weights of the logits of at least `high` in chunk c.
std::size_t split(std::span<const float> logits, std::span<const float> weights, float low, float high,
                  std::span<TokenId> tokens, std::span<double> chunk_sums);

/// The functions above at one level; for tests.
struct RowLoops {
  const char* level;
  void (*find_peak)(const float* logits, std::size_t n, Peak& peak, float* chunk_peaks);
  double (*exp_sum)(const float* logits, std::size_t n, float reference, float rate);
  void (*weigh)(const float* logits, std::size_t n, const Scale& scale, float bound, float* weights, double* chunk_sums, float* chunk_peaks, Weighed& out);
  void (*sums_from)(const float* logits, const float* weights, std::size_t n, const float* bounds, double* sums);
  void (*counts_from)(const float* logits, std::size_t n, const float* bounds, double* counts);
  double (*kept_sum)(const float* logits, const float* weights, std::size_t n, const Kept& kept, double* chunk_sums);
  std::size_t (*find_between)(const float* logits, std::size_t n, float low, float high, std::size_t enough, TokenId* tokens);
  std::size_t (*split)(const float* logits, const float* weights, std::size_t n, float low, float high, TokenId* tokens, double* chunk_sums);
};

/// All levels that this CPU runs, the one in use first.
std::vector<const RowLoops*> row_loops();

}  // namespace millrace::sampling
