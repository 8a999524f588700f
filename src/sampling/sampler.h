#pragma once

// From logits to a token. Pure: the result depends on its arguments only, so a request with a seed gives the same
// text alone, in a batch, and after a preemption.

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace millrace::sampling {

struct Params {
  float temperature = 1.0f;         // 0 = the most likely token; ties go to the lowest id
  float top_p = 1.0f;               // (0, 1]
  int top_k = 0;                    // 0 = off
  float min_p = 0.0f;               // [0, 1]; 0 = off
  float typical_p = 1.0f;           // (0, 1]; 1 = off: the tokens whose surprise is nearest to the expected one
  float repetition_penalty = 1.0f;  // > 0; 1 = off; over prompt and generated tokens
  float presence_penalty = 0.0f;    // [-2, 2]; over generated tokens
  float frequency_penalty = 0.0f;   // [-2, 2]; over generated tokens
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::uint64_t seed = 0;
  int top_logprobs = -1;            // -1 = no log-probabilities; n = those of the n best tokens beside the drawn one's
};

inline constexpr int kMostTopLogprobs = 256;

/// Errors: invalid_argument, naming the field, its value and its range.
Result<void> check_params(const Params& params, int vocab_size);

/// How often each token stands in the prompt and in the generated part of a sequence. Grows with the sequence; a
/// rewind removes again.
class TokenCounts {
 public:
  void add_prompt(TokenId token) { ++counts_[token].prompt; }
  void add_generated(TokenId token) { ++counts_[token].generated; }
  void remove_generated(TokenId token);
  struct Count { std::int32_t prompt = 0, generated = 0; };
  const std::unordered_map<TokenId, Count>& all() const { return counts_; }

 private:
  std::unordered_map<TokenId, Count> counts_;
};

struct TokenLogprob { TokenId token; float logprob; };

struct Sampled {
  TokenId token = -1;
  float logprob = 0;                // natural log, of the distribution before temperature and filters, after bias, penalties and mask
  std::vector<TokenLogprob> top;    // best first, params.top_logprobs of them
};

/// Names one draw: the same three numbers give the same uniform number, whatever ran before or beside.
struct DrawKey {
  std::uint64_t seed;      // params.seed
  std::uint64_t answer;    // its number within the request: 0, 1, ...
  std::uint64_t position;  // of the token to be drawn
};

/// In [0, 1): a counter-based generator (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
double uniform(const DrawKey& key);

/// Another one of the same key, for a draw that takes two.
double second_uniform(const DrawKey& key);

/// Working memory of one sample() over that many tokens, in bytes.
std::size_t scratch_bytes(std::size_t vocab);

/// Order: bias, penalties, mask, temperature, top-k, top-p, min-p, typical-p, draw. NaN logits count as -inf; if no finite logit
/// is left, the lowest allowed id is drawn. Allocates nothing if sampled.top has room for params.top_logprobs.
///
///   logits   [vocab]; overwritten
///   allowed  one bit per token, empty = all; at least one bit is set
///   scratch  scratch_bytes(vocab) or more, aligned to 8; no two draws at once share it, and it keeps nothing
///   sampled  out
void sample(std::span<float> logits, std::span<const std::uint32_t> allowed, const TokenCounts& counts, const Params& params,
            const DrawKey& key, std::span<std::byte> scratch, Sampled& sampled);

/// What a row says of one token that is known already.
struct RowLogprob {
  float logprob = 0;  // natural log; -inf for what cannot come
  int rank = 0;       // 1 = none is likelier
};

/// Of `token` in the row as it is, without bias, penalties or mask; and the best tokens of the row into `top`, best first:
/// returns how many, top.size() unless fewer are above -inf. The same numbers as sample() gives of the same logits. NaN
/// logits count as -inf. Allocates nothing.
///
///   logits   [vocab]
///   top      at most kMostTopLogprobs
///   scratch  as in sample()
struct RowLogprobs {
  RowLogprob of_token;
  int n_top = 0;
};
RowLogprobs row_logprobs(std::span<const float> logits, TokenId token, std::span<TokenLogprob> top, std::span<std::byte> scratch);

}  // namespace millrace::sampling
