#pragma once

// Drives a Model by hand, without scheduler or engine: blocks chosen by the test, chunks chosen by the test.

#include <memory>
#include <string>
#include <vector>

#include "model/model.h"

namespace millrace::model::testing {

/// One sequence and where its blocks lie.
struct Stream {
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
};

class Harness {
 public:
  /// Aborts the test program when the model does not load: the tests made the file.
  Harness(const std::string& path, const LoadOptions& options);

  Model& model() { return *model_; }
  const ModelConfig& config() const { return config_; }

  /// A stream whose blocks are `n` from `first` on, or a seeded permutation of the whole pool.
  Stream stream(std::vector<TokenId> tokens, int first_block) const;
  Stream shuffled(std::vector<TokenId> tokens, unsigned seed) const;

  /// Logits of every position of streams[0], [tokens, vocab], computed in chunks of `chunk` tokens while the others run
  /// beside it, at most `chunk` tokens a step each.
  std::vector<float> logits(const std::vector<Stream>& streams, int chunk);

 private:
  ModelConfig config_;
  std::unique_ptr<Model> model_;
};

std::vector<TokenId> random_tokens(int n, int vocab, unsigned seed);

}  // namespace millrace::model::testing
