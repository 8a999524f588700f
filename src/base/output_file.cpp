#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

/// Another one for each file, in this process and beside others.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> made{0};
  return fmt::format("{}{}{}-{}", path, OutputFile::kTemporaryMark, ::getpid(), made.fetch_add(1));
}

}  // namespace

int write_all(int fd, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    at += n, bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

Result<OutputFile> OutputFile::create(const std::string& path, unsigned mode) {
  struct stat found{};
  const bool direct = ::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
  std::string temporary = direct ? "" : temporary_name(path);
  const int fd = direct ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC)
                        : ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return error(Code::invalid_argument, "cannot write '{}': {}", path, std::strerror(errno));
  return OutputFile(path, std::move(temporary), fd);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, "")), fd_(std::exchange(other.fd_, -1)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> OutputFile::append(const void* data, std::size_t bytes) {
  if (const int failure = write_all(fd_, data, bytes))
    return error(Code::exhausted, "writing '{}': {}", path_, std::strerror(failure));
  return {};
}

Result<void> OutputFile::commit(Commit how) {
  const bool synced = how == Commit::quick || temporary_.empty() || ::fsync(fd_) == 0;
  const int failure = synced ? 0 : errno;
  if (::close(std::exchange(fd_, -1)) != 0 || !synced)
    return error(Code::exhausted, "writing '{}': {}", path_, std::strerror(synced ? errno : failure));
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return error(Code::exhausted, "renaming '{}' to '{}': {}", temporary_, path_, std::strerror(errno));
  temporary_.clear();
  return {};
}

}  // namespace millrace
