#include "io/testing/model_files.h"

#include <fmt/format.h>

#include "base/check.h"

namespace millrace::io::testing {

std::string bytes_of_all(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::string gguf_string(std::string_view text) { return bytes_of(std::uint64_t{text.size()}) + std::string(text); }

GgufWriter& GgufWriter::key(std::string_view name, std::uint32_t type, const std::string& value) {
  keys_.emplace_back(name, gguf_string(name) + bytes_of(type) + value);
  return *this;
}

GgufWriter& GgufWriter::array(std::string_view name, std::uint32_t element_type, std::uint64_t count,
                              const std::string& elements) {
  return key(name, 9, bytes_of(element_type) + bytes_of(count) + elements);
}

GgufWriter& GgufWriter::texts(std::string_view name, const std::vector<std::string>& values) {
  std::string elements;
  for (const std::string& value : values) elements += gguf_string(value);
  return array(name, 8, values.size(), elements);
}

bool GgufWriter::remove(std::string_view name) {
  return std::erase_if(keys_, [&](const auto& entry) { return entry.first == name; }) > 0;
}

GgufWriter& GgufWriter::tensor(std::string_view name, const tensor::TensorDesc& desc, const std::string& bytes) {
  MILLRACE_CHECK(desc.bytes() == bytes.size(), std::string(name));
  data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  std::vector<std::uint64_t> dims;
  for (int d = desc.shape.rank() - 1; d >= 0; --d) dims.push_back(static_cast<std::uint64_t>(desc.shape[d]));
  std::uint32_t type = 0;
  while (tensor::dtype_from_gguf(type) != desc.dtype) ++type;
  raw_tensor(name, dims, type, data_.size());
  data_ += bytes;
  return *this;
}

GgufWriter& GgufWriter::raw_tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                                   std::uint64_t offset) {
  std::string entry = gguf_string(name) + bytes_of(static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t dim : dims) entry += bytes_of(dim);
  tensors_.push_back(entry + bytes_of(type) + bytes_of(offset));
  return *this;
}

std::string GgufWriter::finish() const {
  std::string out = "GGUF" + bytes_of(version) + bytes_of(promised_tensors.value_or(tensors_.size())) +
                    bytes_of(promised_keys.value_or(keys_.size()));
  for (const auto& [name, entry] : keys_) out += entry;
  for (const std::string& entry : tensors_) out += entry;
  if (alignment > 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
  return out + data_;
}

std::string safetensors_bytes(std::string header, const std::string& data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return bytes_of(std::uint64_t{header.size()}) + header + data;
}

std::string safetensors_bytes(const std::vector<TensorSpec>& tensors) {
  std::string header, data;
  for (const TensorSpec& t : tensors) {
    const std::size_t begin = data.size();
    data += bytes_of_all(t.values);
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":{},"data_offsets":[{},{}]}})", header.empty() ? "{" : ",",
                          t.name, tensor::to_string(t.shape), begin, data.size());
  }
  return safetensors_bytes(header.empty() ? "{}" : header + "}", data);
}

bool says(const std::string& message, const std::string& words) {
  std::size_t from = 0;
  for (std::size_t at = 0, next = 0; next != std::string::npos; at = next + 3) {
    next = words.find("...", at);
    const std::string part = words.substr(at, next == std::string::npos ? next : next - at);
    from = message.find(part, from);
    if (from == std::string::npos) return false;
    from += part.size();
  }
  return true;
}

}  // namespace millrace::io::testing
