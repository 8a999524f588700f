#pragma once

// A cursor over little-endian bytes that cannot leave them: every read says no instead. Allocates nothing.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace millrace::io {

static_assert(std::endian::native == std::endian::little, "model files are little-endian and are read in place");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

  /// An integer or float of sizeof(T) bytes; nothing when fewer are left.
  template <class T>
  std::optional<T> number() {
    if (left() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  /// A 64-bit length and that many bytes, as a view; nothing when they are not all there.
  std::optional<std::string_view> string() {
    const auto length = number<std::uint64_t>();
    if (!length || *length > left()) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<std::size_t>(*length));
    at_ += text.size();
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace millrace::io
