#pragma once

// A file on disk as bytes in memory, mapped read-only. Knows nothing of what is in it. The file must not shrink
// while it is mapped: the system answers a read past a new end with SIGBUS.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace millrace::io {

/// The mapping lives as long as this object and does not move when the object does.
class MappedFile {
 public:
  /// Regular files only: a device, pipe or socket is refused without reading from it.
  /// Errors: not_found (missing, dangling link), invalid_argument (folder, device, no permission), corrupt_data
  /// (empty), exhausted (no address space). The caller adds the path.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

/// Gives the whole pages inside `bytes`, which lie in a MappedFile, back to the system. A later read brings them
/// back from the file.
void release_pages(std::span<const std::byte> bytes);

/// A whole small file. Errors: those of MappedFile::open, and corrupt_data for more than `most_bytes`.
Result<std::string> read_text_file(const std::string& path, std::size_t most_bytes);

}  // namespace millrace::io
