// A GGUF file on disk as a WeightSource, and split sets: NAME-00001-of-00003.gguf, where the first part holds the
// metadata and each part holds some of the tensors.

#include <optional>
#include <utility>

#include "io/gguf.h"
#include "io/mapped_file.h"

namespace millrace::io {
namespace {

class GgufSource final : public WeightSource {
 public:
  GgufSource(std::string path, std::vector<MappedFile> files, Metadata metadata, TensorTable tensors)
      : path_(std::move(path)),
        files_(std::move(files)),
        metadata_(std::move(metadata)),
        tensors_(std::move(tensors)) {}

  SourceKind kind() const override { return SourceKind::gguf; }
  const std::string& path() const override { return path_; }
  const tensor::ConstTensorView* find(std::string_view name) const override { return tensors_.find(name); }
  std::vector<std::string_view> tensor_names() const override { return tensors_.names(); }
  const Metadata& metadata() const override { return metadata_; }
  const std::string* text_file(std::string_view) const override { return nullptr; }
  void release(const tensor::ConstTensorView& tensor) const override {
    release_pages({tensor.data, tensor.desc.bytes()});
  }

 private:
  std::string path_;
  std::vector<MappedFile> files_;
  Metadata metadata_;
  TensorTable tensors_;
};

struct Part {
  MappedFile file;
  GgufContent content;
  std::int64_t number;  // counts from 0
  std::int64_t count;   // 1 for a file that is not split
};

Result<Part> open_part(const std::string& path) {
  MILLRACE_TRY(file, MappedFile::open(path));
  MILLRACE_TRY(content, parse_gguf(file.bytes()));
  MILLRACE_TRY(count, content.metadata.get_int_or("split.count", 1, 0, 99999));
  if (count <= 1) return Part{std::move(file), std::move(content), 0, 1};
  MILLRACE_TRY(number, content.metadata.get_int("split.no", 0, count - 1));
  return Part{std::move(file), std::move(content), number, count};
}

std::string suffix_of(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

Result<std::unique_ptr<WeightSource>> joined(const std::string& path, std::vector<Part> parts) {
  std::vector<MappedFile> files;
  std::vector<NamedTensor> tensors;
  for (Part& part : parts) {
    files.push_back(std::move(part.file));
    for (NamedTensor& t : part.content.tensors) tensors.push_back(std::move(t));
  }
  Metadata& metadata = parts.front().content.metadata;
  const auto n_tensors = static_cast<std::int64_t>(tensors.size());
  MILLRACE_TRY(expected, metadata.get_int_or("split.tensors.count", n_tensors, 0, kMostTensors));
  if (parts.size() > 1 && expected != n_tensors)
    return error(Code::corrupt_data, "metadata key 'split.tensors.count' is {}, the {} parts have {} tensors", expected,
                 parts.size(), n_tensors);
  MILLRACE_TRY(table, TensorTable::make(std::move(tensors)));
  return std::unique_ptr<WeightSource>(
      std::make_unique<GgufSource>(path, std::move(files), std::move(metadata), std::move(table)));
}

}  // namespace

Result<std::unique_ptr<WeightSource>> open_gguf(const std::string& path) {
  MILLRACE_TRY(given, open_part(path));
  const std::int64_t own = given.number, count = given.count;
  std::vector<Part> parts;
  if (count == 1) {
    parts.push_back(std::move(given));
    return joined(path, std::move(parts));
  }
  const std::string suffix = suffix_of(own, count);
  if (!path.ends_with(suffix))
    return error(Code::corrupt_data,
                 "it is part {} of {} of a split model, but its name does not end in '{}', so that the other parts "
                 "cannot be found",
                 own + 1, count, suffix);
  const std::string stem = path.substr(0, path.size() - suffix.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if (i == own) {
      parts.push_back(std::move(given));
      continue;
    }
    const std::string name = stem + suffix_of(i, count);
    auto part = open_part(name);
    if (!part) return std::move(part).error().in(fmt::format("part '{}'", name));
    if (part->number != i || part->count != count)
      return error(Code::corrupt_data, "part '{}' says that it is part {} of {}, expected {} of {}", name,
                   part->number + 1, part->count, i + 1, count);
    parts.push_back(*std::move(part));
  }
  return joined(path, std::move(parts));
}

}  // namespace millrace::io
