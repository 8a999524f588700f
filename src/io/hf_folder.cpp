// A Hugging Face folder as a WeightSource: config.json, the tokenizer's files, and the weights in one or more
// safetensors files.

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "io/mapped_file.h"
#include "io/safetensors.h"

namespace millrace::io {
namespace {

struct TextFile {
  const char* name;
  std::size_t most_bytes;
};
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr TextFile kTextFiles[] = {{"config.json", kMiB},
                                   {"generation_config.json", kMiB},
                                   {"chat_template.jinja", 4 * kMiB},
                                   {"tokenizer_config.json", 16 * kMiB},
                                   {"tokenizer.json", 128 * kMiB}};  // 262,144 tokens take about 33 MB
constexpr std::size_t kMostIndexBytes = 16 * kMiB;

class HfFolder final : public WeightSource {
 public:
  HfFolder(std::string path, std::map<std::string, std::string, std::less<>> texts, std::vector<MappedFile> files,
           TensorTable tensors)
      : path_(std::move(path)), texts_(std::move(texts)), files_(std::move(files)), tensors_(std::move(tensors)) {}

  SourceKind kind() const override { return SourceKind::hf_folder; }
  const std::string& path() const override { return path_; }
  const tensor::ConstTensorView* find(std::string_view name) const override { return tensors_.find(name); }
  std::vector<std::string_view> tensor_names() const override { return tensors_.names(); }
  const Metadata& metadata() const override { return metadata_; }
  const std::string* text_file(std::string_view name) const override {
    const auto found = texts_.find(name);
    return found == texts_.end() ? nullptr : &found->second;
  }
  void release(const tensor::ConstTensorView& tensor) const override {
    release_pages({tensor.data, tensor.desc.bytes()});
  }

 private:
  std::string path_;
  Metadata metadata_;  // empty: a folder has its keys in config.json
  std::map<std::string, std::string, std::less<>> texts_;
  std::vector<MappedFile> files_;
  TensorTable tensors_;
};

/// Something of this name is there, be it a dangling link: then opening it says what is wrong with it.
bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

struct Weights {
  std::vector<MappedFile> files;
  std::vector<NamedTensor> tensors;
};

Result<void> add_file(Weights& weights, const std::string& folder, const std::string& name) {
  auto file = MappedFile::open(folder + "/" + name);
  if (!file) return std::move(file).error().in(name);
  auto tensors = parse_safetensors(file->bytes());
  if (!tensors) return std::move(tensors).error().in(name);
  weights.files.push_back(*std::move(file));
  for (NamedTensor& t : *tensors) weights.tensors.push_back(std::move(t));
  if (weights.tensors.size() > kMostTensors)
    return error(Code::corrupt_data, "its files have more than {} tensors", kMostTensors);
  return {};
}

Result<Weights> read_shards(const std::string& folder, const std::string& index_name) {
  auto text = read_text_file(folder + "/" + index_name, kMostIndexBytes);
  if (!text) return std::move(text).error().in(index_name);
  auto entries = parse_shard_index(*text);
  if (!entries) return std::move(entries).error().in(index_name);

  std::map<std::string, std::set<std::string>> by_shard;
  for (ShardEntry& entry : *entries) by_shard[std::move(entry.shard)].insert(std::move(entry.tensor));
  Weights weights;
  for (auto& [shard, promised] : by_shard) {
    const std::size_t first = weights.tensors.size();
    MILLRACE_TRY_VOID(add_file(weights, folder, shard));
    for (std::size_t i = first; i < weights.tensors.size(); ++i) promised.erase(weights.tensors[i].name);
    if (!promised.empty())
      return error(Code::corrupt_data, "{} promises tensor '{}' in {}, which does not have it", index_name,
                   *promised.begin(), shard);
  }
  return weights;
}

Result<Weights> read_weights(const std::string& folder) {
  const std::string single = "model.safetensors", index = "model.safetensors.index.json";
  Weights weights;
  if (exists(folder + "/" + single)) {
    MILLRACE_TRY_VOID(add_file(weights, folder, single));
  } else if (exists(folder + "/" + index)) {
    return read_shards(folder, index);
  }
  return weights;
}

}  // namespace

Result<std::unique_ptr<WeightSource>> open_hf_folder(const std::string& path) {
  if (!exists(path + "/config.json")) return error(Code::not_found, "the folder has no config.json");
  std::map<std::string, std::string, std::less<>> texts;
  for (const auto& [name, most_bytes] : kTextFiles) {
    if (!exists(path + "/" + name)) continue;
    auto text = read_text_file(path + "/" + name, most_bytes);
    if (!text) return std::move(text).error().in(name);
    texts.emplace(name, *std::move(text));
  }
  MILLRACE_TRY(weights, read_weights(path));
  MILLRACE_TRY(table, TensorTable::make(std::move(weights.tensors)));
  return std::unique_ptr<WeightSource>(
      std::make_unique<HfFolder>(path, std::move(texts), std::move(weights.files), std::move(table)));
}

}  // namespace millrace::io
