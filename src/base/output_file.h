#pragma once

// A file that appears whole or not at all: written under a temporary name beside its own, then renamed.

#include <cstddef>
#include <string>

#include "base/result.h"

namespace millrace {

/// Writes all bytes to a descriptor. 0 or errno.
int write_all(int fd, const void* data, std::size_t bytes);

/// commit() gives the file its name, the destructor removes what was not committed. A path that exists and is no regular
/// file (a device, a pipe) is written directly. Two at once for one path are fine, in one process or several: the last
/// commit stays.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path, unsigned mode = 0666);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// Appends. Errors: exhausted, naming the path and the system's reason.
  Result<void> append(const void* data, std::size_t bytes);

  /// durable: the bytes are on the disk before the name is, so that a power cut leaves the old file or the new one.
  enum class Commit { quick, durable };
  Result<void> commit(Commit how = Commit::quick);

  /// What stands after the path in a temporary name, before a number: ".part-".
  static constexpr const char* kTemporaryMark = ".part-";

 private:
  OutputFile(std::string path, std::string temporary, int fd) : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  std::string path_, temporary_;  // temporary_ is empty when the path is written directly
  int fd_ = -1;
};

}  // namespace millrace
