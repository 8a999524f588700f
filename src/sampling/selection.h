#pragma once

// The best of a vocabulary without sorting it. Better is: higher logit, or the same and a lower id.

#include <span>
#include <vector>

#include "base/ids.h"

namespace millrace::sampling {

struct Candidate {
  TokenId token = -1;
  float logit = 0;
  float weight = 0;  // e^((logit - max) / temperature)
};

inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

/// The `n` best tokens (or all, if fewer) into `best`, in no order; weights are 0.
void select_best(std::span<const float> logits, int n, std::vector<Candidate>& best);

/// The best tokens are those up to and with this one.
struct Cut {
  float logit = 0;
  TokenId token = 0;
};

inline bool within(const Cut& cut, float logit, TokenId token) {
  return logit != cut.logit ? logit > cut.logit : token <= cut.token;
}

/// Where the fewest best candidates end whose weights sum to at least `mass`; at least one is within. Reorders
/// `candidates` (not empty).
Cut find_mass(std::vector<Candidate>& candidates, double mass);

/// The same over a vocabulary. weights[i] = e^((logits[i] - max) / temperature); `candidates` is scratch memory.
Cut find_mass(std::span<const float> logits, std::span<const float> weights, float max, float temperature, double mass,
              std::vector<Candidate>& candidates);

}  // namespace millrace::sampling
