#include "server/embedding_writer.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstddef>

#include "server/json_text.h"

namespace millrace::server {
namespace {

/// RFC 4648, with padding.
std::string base64(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (i + j < bytes.size() ? std::to_integer<unsigned>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace

void PooledRows::add(std::span<const float> rows) {
  const std::size_t dim = sum_.size();
  const std::size_t n = rows.size() / dim;
  if (n == 0) return;
  if (pooling_ == Pooling::last) {
    const auto last = rows.subspan((n - 1) * dim, dim);
    sum_.assign(last.begin(), last.end());
    rows_ = 1;
    return;
  }
  for (std::size_t row = 0; row < n; ++row)
    for (std::size_t i = 0; i < dim; ++i) sum_[i] += rows[row * dim + i];
  rows_ += static_cast<int>(n);
}

std::vector<float> PooledRows::vector(bool normalised) const {
  double square = 0;
  for (const double value : sum_) square += value * value;
  const double divisor = normalised ? std::sqrt(square) : rows_;
  std::vector<float> out;
  out.reserve(sum_.size());
  for (const double value : sum_) out.push_back(static_cast<float>(divisor > 0 ? value / divisor : value));
  return out;
}

std::string EmbeddingWriter::whole(std::span<const Answer>, const Totals& totals) {
  static_assert(std::endian::native == std::endian::little, "clients expect little-endian floats");
  std::string out = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::vector<float> vector = rows_[i]->vector(style_.normalised);
    out += fmt::format("{}{{\"object\":\"embedding\",\"index\":{},\"embedding\":", i > 0 ? "," : "", i);
    if (style_.base64) {
      out += '"' + base64(std::as_bytes(std::span(vector))) + '"';
    } else {
      out += '[';
      for (std::size_t j = 0; j < vector.size(); ++j) {
        if (j > 0) out += ',';
        append_json_number(out, vector[j]);
      }
      out += ']';
    }
    out += '}';
  }
  return out + fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})", json_string(style_.model), totals.prompt_tokens, totals.prompt_tokens);
}

}  // namespace millrace::server
