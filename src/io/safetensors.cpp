#include "io/safetensors.h"

#include <cstdint>
#include <optional>

#include "io/byte_reader.h"
#include "io/json_walk.h"
#include "io/printable.h"

namespace millrace::io {
namespace {

// 130,000 tensors of 128 bytes each; no published file has as many. Twice as much could take 5 s to refuse on a busy
// machine.
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{1} << 24;

std::optional<tensor::DType> dtype_from(std::string_view name) {
  using enum tensor::DType;
  constexpr std::pair<std::string_view, tensor::DType> kNames[] = {
      {"F64", f64}, {"F32", f32}, {"F16", f16}, {"BF16", bf16}, {"I64", i64}, {"I32", i32}, {"I16", i16}, {"I8", i8}};
  for (const auto& [known, dtype] : kNames)
    if (known == name) return dtype;
  return std::nullopt;
}

Error expected(std::string_view tensor, std::string_view what) {
  return error(Code::corrupt_data, "tensor '{}': {}", printable(tensor), what);
}

/// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {...}}
class HeaderHandler final : public JsonHandler {
 public:
  explicit HeaderHandler(std::span<const std::byte> data) : data_(data) {}

  std::vector<NamedTensor> take() && { return std::move(tensors_); }

  Result<void> open(JsonPath path, JsonContainer container) override {
    if (path.empty()) return container == JsonContainer::object ? Result<void>{} : no_object();
    const std::string& name = path[0].key;
    if (in_metadata(path)) return {};
    if (path.size() == 1) {
      entry_ = {};
      if (container == JsonContainer::object) return {};
      return expected(name, "its entry is a list, expected an object");
    }
    list_ = nullptr;
    if (path.size() == 2 && container == JsonContainer::array) {
      if (path[1].key == "shape") list_ = &entry_.shape.emplace();
      if (path[1].key == "data_offsets") list_ = &entry_.offsets.emplace();
    }
    if (list_) return {};
    return expected(name, fmt::format("unexpected list or object at {}", to_string(path.subspan(1))));
  }

  Result<void> value(JsonPath path, JsonScalar&& scalar) override {
    if (path.empty()) return no_object();
    const std::string& name = path[0].key;
    if (in_metadata(path)) return {};
    if (path.size() == 1) return expected(name, "its entry is no object");
    if (path.size() == 2) {
      auto* text = std::get_if<std::string>(&scalar);
      if (path[1].key != "dtype" || !text)
        return expected(name, fmt::format("unexpected value of {}", to_string(path.subspan(1))));
      entry_.dtype = std::move(*text);
      return {};
    }
    const auto* number = std::get_if<std::uint64_t>(&scalar);
    if (!number) return expected(name, fmt::format("{} is no integer of 0 or more", to_string(path.subspan(1))));
    if (list_->size() == 4) return expected(name, fmt::format("{} has more than 4 numbers", printable(path[1].key)));
    list_->push_back(*number);
    return {};
  }

  Result<void> close(JsonPath path) override {
    if (path.size() != 1 || in_metadata(path)) return {};
    const std::string& name = path[0].key;
    if (!is_plain_name(name)) return error(Code::corrupt_data, "a tensor has no valid name: '{}'", printable(name));
    if (tensors_.size() == kMostTensors) return error(Code::corrupt_data, "it has more than {} tensors", kMostTensors);
    MILLRACE_TRY(placed, place(name));
    tensors_.push_back(std::move(placed));
    return {};
  }

 private:
  struct Entry {
    std::optional<std::string> dtype;
    std::optional<std::vector<std::uint64_t>> shape, offsets;
  };

  static Error no_object() { return error(Code::corrupt_data, "it is not a JSON object"); }
  static bool in_metadata(JsonPath path) { return path[0].key == "__metadata__"; }

  Result<NamedTensor> place(const std::string& name) const {
    if (!entry_.dtype) return expected(name, "it has no dtype");
    if (!entry_.shape) return expected(name, "it has no shape");
    if (!entry_.offsets || entry_.offsets->size() != 2) return expected(name, "it has no data_offsets of two numbers");
    const auto dtype = dtype_from(*entry_.dtype);
    if (!dtype)
      return error(Code::unsupported, "tensor '{}' has dtype '{}', which this build does not read", name,
                   printable(*entry_.dtype));
    MILLRACE_TRY(desc, checked_desc(name, *dtype, *entry_.shape));
    const std::uint64_t begin = (*entry_.offsets)[0], end = (*entry_.offsets)[1];
    if (begin > end)
      return expected(name, fmt::format("data_offsets are [{}, {}], the end lies before the begin", begin, end));
    if (end > data_.size())
      return expected(
          name, fmt::format("it ends at byte {} of the data, which has {}; the file is too short, probably cut short",
                            end, data_.size()));
    if (end - begin != desc.bytes())
      return expected(
          name, fmt::format("data_offsets are [{}, {}], {} needs {} bytes", begin, end, to_string(desc), desc.bytes()));
    return NamedTensor{name, {desc, data_.data() + begin}};
  }

  std::span<const std::byte> data_;
  std::vector<NamedTensor> tensors_;
  Entry entry_;
  std::vector<std::uint64_t>* list_ = nullptr;  // the list of entry_ that is open
};

/// {"metadata": {...}, "weight_map": {"name": "model-00001-of-00002.safetensors", ...}}
class IndexHandler final : public JsonHandler {
 public:
  std::vector<ShardEntry> take() && { return std::move(entries_); }

  Result<void> open(JsonPath path, JsonContainer container) override {
    if (path.empty() && container == JsonContainer::array) return no_map();
    if (path.empty() || path[0].key != "weight_map") return {};
    if (path.size() == 1 && container == JsonContainer::object) return {};
    return error(Code::corrupt_data, "{} is a list or an object, expected names of files", to_string(path));
  }

  Result<void> value(JsonPath path, JsonScalar&& scalar) override {
    if (path.empty() || (path.size() == 1 && path[0].key == "weight_map")) return no_map();
    if (path[0].key != "weight_map") return {};
    const std::string& name = path[1].key;
    if (!is_plain_name(name)) return error(Code::corrupt_data, "a tensor has no valid name: '{}'", printable(name));
    auto* shard = std::get_if<std::string>(&scalar);
    if (!shard) return expected(name, "the index gives no file name for it");
    if (!is_plain_name(*shard) || *shard == "." || *shard == ".." || shard->find_first_of("/\\") != std::string::npos)
      return expected(name, fmt::format("the index puts it in '{}', expected the plain name of a file in this folder",
                                        printable(*shard)));
    if (entries_.size() == kMostTensors) return error(Code::corrupt_data, "it has more than {} tensors", kMostTensors);
    entries_.push_back({name, std::move(*shard)});
    return {};
  }

  Result<void> close(JsonPath) override { return {}; }

 private:
  static Error no_map() { return error(Code::corrupt_data, "it has no weight_map"); }
  std::vector<ShardEntry> entries_;
};

}  // namespace

Result<std::vector<NamedTensor>> parse_safetensors(std::span<const std::byte> file) {
  ByteReader in(file);
  const auto length = in.number<std::uint64_t>();
  if (!length)
    return error(Code::corrupt_data, "it begins with a length of 8 bytes, the file has {}; it is probably cut short",
                 file.size());
  if (*length > in.left())
    return error(Code::corrupt_data, "its header has {} bytes, the file has {}; it is probably cut short", *length,
                 file.size());
  if (*length > kMostHeaderBytes)
    return error(Code::corrupt_data, "its header has {} bytes, at most {} are read", *length, kMostHeaderBytes);
  const auto header_bytes = static_cast<std::size_t>(*length);
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + 8, header_bytes);
  HeaderHandler handler(file.subspan(8 + header_bytes));
  if (auto walked = walk_json(header, handler); !walked) return std::move(walked).error().in("header");
  return std::move(handler).take();
}

Result<std::vector<ShardEntry>> parse_shard_index(std::string_view text) {
  IndexHandler handler;
  MILLRACE_TRY_VOID(walk_json(text, handler));
  auto entries = std::move(handler).take();
  if (entries.empty()) return error(Code::corrupt_data, "its weight_map is missing or empty");
  return entries;
}

}  // namespace millrace::io
