#pragma once

// From hidden states to /v1/embeddings' answer: pooled as they come, so a prompt takes the memory of one vector.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/answer_writer.h"

namespace millrace::server {

enum class Pooling { last, mean };

/// One prompt's vector. The engine's thread adds rows; it is read once the prompt has ended.
class PooledRows {
 public:
  PooledRows(Pooling pooling, int dim) : pooling_(pooling), sum_(static_cast<std::size_t>(dim)) {}

  /// rows: [n, dim]
  void add(std::span<const float> rows);

  /// `normalised`: of length 1, unless it is 0.
  std::vector<float> vector(bool normalised) const;

 private:
  Pooling pooling_;
  std::vector<double> sum_;
  int rows_ = 0;
};

struct EmbeddingStyle {
  std::string model;
  bool base64 = false, normalised = true;
};

class EmbeddingWriter : public AnswerWriter {
 public:
  EmbeddingWriter(EmbeddingStyle style, std::vector<std::shared_ptr<const PooledRows>> rows) : style_(std::move(style)), rows_(std::move(rows)) {}

  std::string whole(std::span<const Answer> answers, const Totals& totals) override;

  // Vectors are never streamed.
  std::string begin() override { return ""; }
  std::string piece(int, const Piece&) override { return ""; }
  std::string end(int, const Ending&) override { return ""; }
  std::string close(const Totals&) override { return ""; }
  std::string failure(const ApiError& error) override { return error_event(error, Dialect::openai); }

 private:
  EmbeddingStyle style_;
  std::vector<std::shared_ptr<const PooledRows>> rows_;
};

}  // namespace millrace::server
