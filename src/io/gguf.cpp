#include "io/gguf.h"

#include <bit>
#include <cstdint>
#include <optional>

#include "io/byte_reader.h"
#include "io/printable.h"

namespace millrace::io {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"

// The largest vocabularies in use have 262,144 tokens and about twice as many merges.
constexpr std::uint64_t kMostKeys = std::uint64_t{1} << 16;
constexpr std::uint64_t kMostArrayElements = std::uint64_t{1} << 22;  // of all arrays of a file together

// The least bytes that one entry can take in the file: a count beyond what is left divided by these is a lie.
constexpr std::uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1;             // length, one letter, type, value
constexpr std::uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // length, one letter, rank, dimension, type, offset

enum ValueType : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

/// Calls read.operator()<type in the file, type in Metadata>() for a number; nothing for other types.
template <class Read>
std::optional<Result<MetadataValue>> for_number(std::uint32_t type, Read read) {
  switch (type) {
    case kU8: return read.template operator()<std::uint8_t, std::uint64_t>();
    case kI8: return read.template operator()<std::int8_t, std::int64_t>();
    case kU16: return read.template operator()<std::uint16_t, std::uint64_t>();
    case kI16: return read.template operator()<std::int16_t, std::int64_t>();
    case kU32: return read.template operator()<std::uint32_t, std::uint64_t>();
    case kI32: return read.template operator()<std::int32_t, std::int64_t>();
    case kF32: return read.template operator()<float, double>();
    case kU64: return read.template operator()<std::uint64_t, std::uint64_t>();
    case kI64: return read.template operator()<std::int64_t, std::int64_t>();
    case kF64: return read.template operator()<double, double>();
    default: return std::nullopt;
  }
}

Error cut_short(const ByteReader& in) {
  return error(Code::corrupt_data, "the value does not fit in the {} bytes that are left of the file", in.left());
}

Result<bool> read_bool(ByteReader& in) {
  const auto byte = in.number<std::uint8_t>();
  if (!byte) return cut_short(in);
  if (*byte > 1) return error(Code::corrupt_data, "a bool is {}, expected 0 or 1", *byte);
  return *byte == 1;
}

Result<std::string_view> read_string(ByteReader& in) {
  const auto text = in.string();
  if (!text) return cut_short(in);
  return *text;
}

/// Reads one value or the elements of one array after another; errors do not name the key yet.
class ValueReader {
 public:
  explicit ValueReader(ByteReader& in) : in_(in) {}

  Result<MetadataValue> value(std::uint32_t type) {
    if (type == kString) return widened(read_string(in_));
    if (type == kBool) return widened(read_bool(in_));
    if (type == kArray) return array();
    auto number = for_number(type, [this]<class Raw, class Wide>() -> Result<MetadataValue> {
      const auto raw = in_.number<Raw>();
      if (!raw) return cut_short(in_);
      return MetadataValue(static_cast<Wide>(*raw));
    });
    if (!number) return error(Code::corrupt_data, "its type is {}, expected 0 to 12", type);
    return *std::move(number);
  }

 private:
  template <class T>
  static Result<MetadataValue> widened(Result<T> value) {
    if (!value) return std::move(value).error();
    return MetadataValue(*value);
  }

  Result<MetadataValue> array() {
    const auto type = in_.number<std::uint32_t>();
    const auto count = in_.number<std::uint64_t>();
    if (!type || !count) return cut_short(in_);
    if (*count > elements_left_)
      return error(Code::corrupt_data, "it has {} elements, all arrays of a file together may have {}", *count,
                   kMostArrayElements);
    elements_left_ -= *count;
    if (*type == kArray) return error(Code::unsupported, "it is an array of arrays, which this build does not read");
    if (*type == kString) return list<std::string_view>(*count, 8, read_string);
    if (*type == kBool) return list<bool>(*count, 1, read_bool);
    auto numbers = for_number(*type, [&]<class Raw, class Wide>() {
      return list<Wide>(*count, sizeof(Raw),
                        [](ByteReader& in) -> Result<Wide> { return static_cast<Wide>(*in.number<Raw>()); });
    });
    if (!numbers) return error(Code::corrupt_data, "its elements have type {}, expected 0 to 12", *type);
    return *std::move(numbers);
  }

  /// least_bytes: what one element takes in the file at least, so that nothing is reserved for a false count.
  template <class T, class ReadOne>
  Result<MetadataValue> list(std::uint64_t count, std::uint64_t least_bytes, ReadOne read_one) {
    if (count > in_.left() / least_bytes)
      return error(Code::corrupt_data, "its {} elements do not fit in the {} bytes that are left of the file", count,
                   in_.left());
    std::vector<T> out;
    out.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      Result<T> element = read_one(in_);
      if (!element) return std::move(element).error().in(fmt::format("element {} of {}", i, count));
      out.push_back(*element);
    }
    return MetadataValue(std::move(out));
  }

  ByteReader& in_;
  std::uint64_t elements_left_ = kMostArrayElements;
};

struct Counts { std::uint64_t tensors; std::uint64_t keys; };

Result<Counts> read_header(ByteReader& in) {
  const std::size_t file_bytes = in.left();
  const auto magic = in.number<std::uint32_t>();
  if (!magic || *magic != kMagic)
    return error(Code::corrupt_data, "it is not a GGUF file: it does not begin with 'GGUF'");
  const auto version = in.number<std::uint32_t>();
  const auto tensors = in.number<std::uint64_t>(), keys = in.number<std::uint64_t>();
  if (version && *version != 0 && (*version & 0xFFFF) == 0)
    return error(Code::unsupported, "it is a big-endian GGUF file, this build reads little-endian ones");
  if (version && *version != 2 && *version != 3)
    return error(Code::unsupported, "GGUF version is {}, this build reads 2 and 3", *version);
  if (!keys)
    return error(Code::corrupt_data, "the GGUF header takes 24 bytes, the file has {}; it is probably cut short",
                 file_bytes);
  if (*keys > kMostKeys || *keys > in.left() / kLeastKeyBytes)
    return error(Code::corrupt_data,
                 "the header promises {} metadata keys, the file has {} bytes; at most {} keys are read", *keys,
                 file_bytes, kMostKeys);
  if (*tensors > kMostTensors || *tensors > in.left() / kLeastTensorBytes)
    return error(Code::corrupt_data,
                 "the header promises {} tensors, the file has {} bytes; at most {} tensors are read", *tensors,
                 file_bytes, kMostTensors);
  return Counts{*tensors, *keys};
}

Result<Metadata> read_metadata(ByteReader& in, std::uint64_t count) {
  Metadata out;
  ValueReader values(in);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto key = in.string();
    const auto type = in.number<std::uint32_t>();
    if (!key || !type)
      return error(Code::corrupt_data, "metadata key {} of {} does not fit in the file; it is probably cut short",
                   i + 1, count);
    if (!is_plain_name(*key))
      return error(Code::corrupt_data, "metadata key {} of {} has no valid name: '{}'", i + 1, count, printable(*key));
    auto value = values.value(*type);
    if (!value) return std::move(value).error().in(fmt::format("metadata key '{}'", *key));
    if (!out.insert(std::string(*key), *std::move(value)))
      return error(Code::corrupt_data, "metadata key '{}' is there twice", *key);
  }
  return out;
}

/// Bytes. At least 8, as the format page asks, so that every element type is aligned where it lies.
Result<std::uint64_t> read_alignment(const Metadata& metadata) {
  MILLRACE_TRY(alignment, metadata.get_int_or("general.alignment", 32, 8, 1 << 20));
  if (!std::has_single_bit(static_cast<std::uint64_t>(alignment)))
    return error(Code::corrupt_data, "metadata key 'general.alignment' is {}, expected a power of two", alignment);
  return static_cast<std::uint64_t>(alignment);
}

struct TensorInfo { std::string_view name; tensor::TensorDesc desc; std::uint64_t offset; };

Result<TensorInfo> read_tensor_info(ByteReader& in, std::uint64_t number, std::uint64_t count) {
  const auto missing = [&] {
    return error(Code::corrupt_data,
                 "entry {} of {} in the tensor table does not fit in the file; it is probably cut short", number,
                 count);
  };
  const auto name = in.string();
  const auto rank = in.number<std::uint32_t>();
  if (!name || !rank) return missing();
  if (!is_plain_name(*name))
    return error(Code::corrupt_data, "tensor {} of {} has no valid name: '{}'", number, count, printable(*name));
  if (*rank < 1 || *rank > 4)
    return error(Code::corrupt_data, "tensor '{}' has {} dimensions, expected 1 to 4", *name, *rank);
  std::uint64_t dims[4];
  for (std::uint32_t d = 0; d < *rank; ++d) {
    const auto dim = in.number<std::uint64_t>();
    if (!dim) return missing();
    dims[*rank - 1 - d] = *dim;  // the file has the innermost dimension first
  }
  const auto type = in.number<std::uint32_t>();
  const auto offset = in.number<std::uint64_t>();
  if (!type || !offset) return missing();
  const auto dtype = tensor::dtype_from_gguf(*type);
  if (!dtype)
    return error(Code::unsupported, "tensor '{}' has GGUF type {}, which this build does not read", *name, *type);
  MILLRACE_TRY(desc, checked_desc(*name, *dtype, std::span(dims, *rank)));
  return TensorInfo{*name, desc, *offset};
}

/// data_start: byte of the file at which offset 0 lies.
Result<NamedTensor> place(const TensorInfo& info, std::span<const std::byte> file, std::uint64_t data_start,
                          std::uint64_t alignment) {
  if (info.offset % alignment != 0)
    return error(Code::corrupt_data, "tensor '{}' has offset {}, expected a multiple of {}", info.name, info.offset,
                 alignment);
  if (data_start > file.size() || info.offset > file.size() - data_start)
    return error(
        Code::corrupt_data,
        "tensor '{}' begins {} bytes into the data at byte {}, the file has {}; it is too short, probably cut short",
        info.name, info.offset, data_start, file.size());
  const std::uint64_t start = data_start + info.offset, bytes = info.desc.bytes();  // both below 2^63
  if (bytes > file.size() - start)
    return error(Code::corrupt_data,
                 "tensor '{}' ends at byte {}, the file has {}; it is too short, probably cut short", info.name,
                 start + bytes, file.size());
  return NamedTensor{std::string(info.name), {info.desc, file.data() + start}};
}

}  // namespace

Result<GgufContent> parse_gguf(std::span<const std::byte> file) {
  ByteReader in(file);
  MILLRACE_TRY(counts, read_header(in));
  MILLRACE_TRY(metadata, read_metadata(in, counts.keys));
  MILLRACE_TRY(alignment, read_alignment(metadata));

  if (counts.tensors > in.left() / kLeastTensorBytes)
    return error(Code::corrupt_data,
                 "the header promises {} tensors, their table does not fit in the {} bytes that are left of the file",
                 counts.tensors, in.left());
  std::vector<TensorInfo> infos;
  infos.reserve(static_cast<std::size_t>(counts.tensors));
  for (std::uint64_t i = 1; i <= counts.tensors; ++i) {
    MILLRACE_TRY(info, read_tensor_info(in, i, counts.tensors));
    infos.push_back(info);
  }
  const std::uint64_t data_start = (in.position() + alignment - 1) / alignment * alignment;

  GgufContent out{std::move(metadata), {}};
  out.tensors.reserve(infos.size());
  for (const TensorInfo& info : infos) {
    MILLRACE_TRY(placed, place(info, file, data_start, alignment));
    out.tensors.push_back(std::move(placed));
  }
  return out;
}

}  // namespace millrace::io
