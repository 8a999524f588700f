#pragma once

// The slow, obvious forward pass: double precision, no cache, no batch. Tests compare the engine with it.

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "io/testing/model_files.h"
#include "model/config.h"

namespace millrace::model::testing {

/// Logits [tokens, vocab] of llama or qwen2 with the given weights (names and shapes of transformers).
std::vector<double> reference_logits(const ModelConfig& config, const std::vector<io::testing::TensorSpec>& weights, const std::vector<TokenId>& tokens);

}  // namespace millrace::model::testing
