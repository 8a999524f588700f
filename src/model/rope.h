#pragma once

// From a rope configuration to the frequencies that ops/rope.h takes.

#include <span>
#include <vector>

#include "model/config.h"

namespace millrace::model {

struct RopeFrequencies {
  std::vector<double> inverse;   // [rot/2]
  double attention_factor = 1;   // scales cosine and sine (YaRN)
};

/// `factors` f32 [rot/2] divide the frequencies (GGUF's rope_freqs.weight); empty = none.
/// Sources: Su et al. 2021; Llama 3.1's model card (llama3); Peng et al. 2023, "YaRN" (yarn).
RopeFrequencies rope_frequencies(const RopeConfig& rope, std::span<const float> factors);

}  // namespace millrace::model
