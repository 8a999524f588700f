#pragma once

// Opens a file whose path somebody gave us, to read: a regular one, or a sentence that says what it is. A pipe that nobody
// writes to would make open() or read() wait for ever. Knows nothing of what is in it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace millrace {

class RegularFile {
 public:
  /// Nothing is read from what is refused. Errors: not_found (missing, dangling link), invalid_argument (folder, device, pipe,
  /// socket, no permission), exhausted (no descriptor). The caller adds the path.
  static Result<RegularFile> open(const std::string& path);

  RegularFile(RegularFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_) {}
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  int fd() const { return fd_; }
  std::int64_t bytes() const { return bytes_; }  // when it was opened

  /// All of it. Errors: invalid_argument for more than `most_bytes`, corrupt_data (the disk fails).
  Result<std::string> read(std::size_t most_bytes) const;

 private:
  RegularFile(int fd, std::int64_t bytes) : fd_(fd), bytes_(bytes) {}
  int fd_;
  std::int64_t bytes_;
};

}  // namespace millrace
