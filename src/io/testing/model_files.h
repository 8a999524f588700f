#pragma once

// Writes model files for tests, of this module and of others: GGUF and safetensors bytes piece by piece, valid or
// with lies in them, and tiny random llama and qwen2 models with the names that transformers gives. Small models only:
// everything is built in memory.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/testing/scratch_folder.h"
#include "tensor/shape.h"

namespace millrace::io::testing {

using millrace::testing::ScratchFolder;
using millrace::testing::write_file;

/// The bytes of a number as they lie in a file (little-endian).
template <class T>
std::string bytes_of(T number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof(T));
}
std::string bytes_of_all(const std::vector<float>& values);

/// A GGUF string: 64-bit length, then the text.
std::string gguf_string(std::string_view text);

/// Entries are kept in order; a `raw_` one may be anything. The members before the methods are what the header says.
class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;                // of the data; does not write general.alignment
  std::optional<std::uint64_t> promised_keys;  // instead of the true counts
  std::optional<std::uint64_t> promised_tensors;

  GgufWriter& key(std::string_view name, std::uint32_t type, const std::string& value);  // type: GGUF's number
  GgufWriter& u32(std::string_view name, std::uint32_t value) { return key(name, 4, bytes_of(value)); }
  GgufWriter& i32(std::string_view name, std::int32_t value) { return key(name, 5, bytes_of(value)); }
  GgufWriter& f32(std::string_view name, float value) { return key(name, 6, bytes_of(value)); }
  GgufWriter& boolean(std::string_view name, bool value) { return key(name, 7, std::string(1, value ? '\1' : '\0')); }
  GgufWriter& text(std::string_view name, std::string_view value) { return key(name, 8, gguf_string(value)); }
  GgufWriter& array(std::string_view name, std::uint32_t element_type, std::uint64_t count,
                    const std::string& elements);
  GgufWriter& texts(std::string_view name, const std::vector<std::string>& values);

  /// Takes an entry out again, so that a test can write another one. False when there is none.
  bool remove(std::string_view name);

  /// bytes: desc.bytes() of them, placed at the next aligned offset.
  GgufWriter& tensor(std::string_view name, const tensor::TensorDesc& desc, const std::string& bytes);

  /// dims: innermost first, as GGUF has them; type: GGUF's number. Adds no data.
  GgufWriter& raw_tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                         std::uint64_t offset);

  /// Adds bytes to the data.
  GgufWriter& data(const std::string& bytes) { return data_ += bytes, *this; }

  std::string finish() const;

 private:
  std::vector<std::pair<std::string, std::string>> keys_;  // name, bytes of the whole entry
  std::vector<std::string> tensors_;
  std::string data_;
};

/// header: JSON text. Padded with blanks to a multiple of 8.
std::string safetensors_bytes(std::string header, const std::string& data);

/// `values` in another format: rounded to the nearest value for plain types, a simple quantiser (the largest value of
/// each block or group decides its scale) for the others.
std::string encode(tensor::DType type, const std::vector<float>& values);

struct TensorSpec {
  std::string name;
  tensor::Shape shape;  // outermost first
  std::vector<float> values;
};

/// All tensors as F32.
std::string safetensors_bytes(const std::vector<TensorSpec>& tensors);

/// A random model, the same for the same numbers on every machine. Weights are of a size that keeps activations near 1.
struct TinyModel {
  std::string architecture = "llama";  // or qwen2, which has biases on q, k and v
  int layers = 2, dim = 64, ffn_dim = 96, heads = 4, kv_heads = 2, vocab = 96, positions = 128;
  int head_dim = 16;
  double rope_theta = 10000.0;
  bool tied = false;
  std::uint32_t seed = 1;
  tensor::DType matrices = tensor::DType::f32;  // of the GGUF; rounded by encode()
  std::string more_config;                      // more members of config.json: `,"rope_scaling": {...}`

  /// With the names of transformers ("model.layers.0.self_attn.q_proj.weight").
  std::vector<TensorSpec> tensors() const;
  std::string config_json() const;

  /// config.json and model.safetensors.
  void write_folder(const std::filesystem::path& folder) const;

  /// The same model as GGUF v3, matrices in `matrices`: GGUF's names, and for llama the rows of q and k in the order
  /// that GGUF has. Its token list is "t0", "t1", ...
  GgufWriter gguf() const;
};

/// True when `message` has these words, in this order where "..." parts them. For EXPECT_PRED2, which prints both.
bool says(const std::string& message, const std::string& words);

}  // namespace millrace::io::testing
