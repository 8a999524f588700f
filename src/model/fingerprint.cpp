#include "model/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <string>

namespace millrace::model {
namespace {

constexpr std::size_t kPieces = 4, kPieceBytes = 256;

/// A running hash. Each part is hashed with its length, so that parts cannot run into each other.
class Hash {
 public:
  void bytes(const void* data, std::size_t n) {
    const std::uint64_t link[] = {value_, n, XXH3_64bits(data, n)};
    value_ = XXH3_64bits(link, sizeof link);
  }
  void text(std::string_view s) { bytes(s.data(), s.size()); }
  void number(std::int64_t n) { bytes(&n, sizeof n); }
  void number(double x) { number(std::bit_cast<std::int64_t>(x)); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

void add_config(Hash& hash, const ModelConfig& c) {
  hash.text(c.architecture);
  for (const int n : {c.n_layers, c.dim, c.ffn_dim, c.n_heads, c.n_kv_heads, c.head_dim, c.vocab_size, int{c.tied_head}, c.rope.dims, static_cast<int>(c.rope.scaling)})
    hash.number(std::int64_t{n});
  const RopeConfig& r = c.rope;
  for (const double x : {double{c.norm_eps}, r.theta, r.factor, r.original_context, r.low_freq_factor, r.high_freq_factor, r.beta_fast, r.beta_slow, r.attention_factor})
    hash.number(x);
}

void add_tensor(Hash& hash, std::string_view name, const tensor::ConstTensorView& tensor) {
  hash.text(name);
  hash.text(to_string(tensor.desc));
  const std::size_t bytes = tensor.desc.bytes(), piece = std::min(bytes, kPieceBytes);
  for (std::size_t i = 0; i < kPieces; ++i) hash.bytes(tensor.data + (bytes - piece) / (kPieces - 1) * i, piece);
}

}  // namespace

std::uint64_t fingerprint_of(const io::WeightSource& source, const ModelConfig& config, std::string_view isa, KvFormat kv) {
  Hash hash;
  add_config(hash, config);
  auto names = source.tensor_names();
  std::ranges::sort(names);
  for (const std::string_view name : names)
    if (const auto* tensor = source.find(name)) add_tensor(hash, name, *tensor);
  hash.text(isa);
  hash.text(to_string(kv));
  hash.number(std::int64_t{kNumericsVersion});
  hash.number(std::int64_t{kParallelDegree});
  return hash.value() == 0 ? 1 : hash.value();
}

}  // namespace millrace::model
