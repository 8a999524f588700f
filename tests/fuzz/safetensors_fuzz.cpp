// Any bytes as each file of a model folder: a safetensors file, the index of shards, and config.json. Nothing may be
// read outside the bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "io/safetensors.h"
#include "model/config.h"

namespace {

using namespace millrace;

/// A folder whose config.json is the input.
class TextSource final : public io::WeightSource {
 public:
  explicit TextSource(std::string config) : config_(std::move(config)) {}
  io::SourceKind kind() const override { return io::SourceKind::hf_folder; }
  const std::string& path() const override { return path_; }
  const tensor::ConstTensorView* find(std::string_view) const override { return nullptr; }
  std::vector<std::string_view> tensor_names() const override { return {}; }
  const Metadata& metadata() const override { return metadata_; }
  const std::string* text_file(std::string_view) const override { return &config_; }
  void release(const tensor::ConstTensorView&) const override {}

 private:
  std::string path_ = "fuzz";
  std::string config_;
  Metadata metadata_;
};

volatile std::byte sink;  // keeps the reads below

void as_tensors(std::span<const std::byte> bytes) {
  // In a block of its own, aligned as a mapping is.
  const std::vector<std::byte> file(bytes.begin(), bytes.end());
  auto tensors = io::parse_safetensors(file);
  if (!tensors) return;
  for (const io::NamedTensor& t : *tensors) {
    sink = t.view.data[0];
    sink = t.view.data[t.view.desc.bytes() - 1];
  }
  (void)io::TensorTable::make(*std::move(tensors)).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string text(reinterpret_cast<const char*>(data), size);
  as_tensors(bytes);
  if (auto shards = io::parse_shard_index(text))
    for (const io::ShardEntry& entry : *shards)
      MILLRACE_CHECK(entry.shard.find('/') == std::string::npos, "a shard leaves its folder");
  if (auto config = model::read_config(TextSource(text))) (void)model::validated(*std::move(config)).ok();
  return 0;
}
