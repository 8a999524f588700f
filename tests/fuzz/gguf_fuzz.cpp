// Any bytes as a GGUF file: parsed, looked up, and read as a model's config. Nothing may be read outside the bytes.

#include <cstddef>
#include <cstdint>

#include "io/gguf.h"
#include "model/config.h"

namespace {

using namespace millrace;

class BytesSource final : public io::WeightSource {
 public:
  BytesSource(Metadata metadata, io::TensorTable tensors)
      : metadata_(std::move(metadata)), tensors_(std::move(tensors)) {}
  io::SourceKind kind() const override { return io::SourceKind::gguf; }
  const std::string& path() const override { return path_; }
  const tensor::ConstTensorView* find(std::string_view name) const override { return tensors_.find(name); }
  std::vector<std::string_view> tensor_names() const override { return tensors_.names(); }
  const Metadata& metadata() const override { return metadata_; }
  const std::string* text_file(std::string_view) const override { return nullptr; }
  void release(const tensor::ConstTensorView&) const override {}

 private:
  std::string path_ = "fuzz.gguf";
  Metadata metadata_;
  io::TensorTable tensors_;
};

volatile std::byte sink;  // keeps the reads below

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto content = io::parse_gguf(std::as_bytes(std::span(data, size)));
  if (!content) return 0;
  for (const io::NamedTensor& t : content->tensors) {
    sink = t.view.data[0];
    sink = t.view.data[t.view.desc.bytes() - 1];
  }
  auto table = io::TensorTable::make(std::move(content->tensors));
  if (!table) return 0;
  const BytesSource source(std::move(content->metadata), *std::move(table));
  for (const std::string_view name : source.tensor_names())
    MILLRACE_CHECK(source.find(name), "a tensor is not found by its name");
  if (auto config = model::read_config(source)) (void)model::validated(*std::move(config)).ok();
  return 0;
}
