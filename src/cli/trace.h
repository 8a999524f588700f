#pragma once

// Requests with their arrival times, as a file has them: one JSON object a line. What the tokens say is up to who runs
// them; only lengths, and which prompts begin alike, are given.

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace millrace::cli {

struct TraceRequest {
  double arrival_s = 0;
  int prompt_tokens = 0, new_tokens = 0;  // >= 1; new tokens are made in full
  std::string prefix_group;               // requests of one group begin with the same prefix_tokens; "": none
  int prefix_tokens = 0;                  // [0, prompt_tokens]
  std::string tenant;
};

/// In order of arrival. Errors: not_found; corrupt_data with the line and its field.
Result<std::vector<TraceRequest>> read_trace(const std::string& path);

/// A chat service's minute on a small scale: mostly short prompts, some long ones. The same for the same seed.
std::vector<TraceRequest> make_trace(int n, unsigned seed);

/// Of several applications, for the KV cache: longer tails, and three in five requests begin with the system prompt of one
/// of three groups. The same for the same seed.
std::vector<TraceRequest> make_kv_trace(int n, unsigned seed);

/// Random prompts, those of a group with their common beginning. The same for the same trace and seed.
std::vector<std::vector<TokenId>> prompts_of(const std::vector<TraceRequest>& trace, int vocab_size, unsigned seed);

}  // namespace millrace::cli
