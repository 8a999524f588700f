#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace millrace {
namespace {

std::string reason_of(int error_number) { return std::generic_category().message(error_number); }

Error cannot_open(const std::string& path, int error_number) {
  if (error_number == ENOENT) {
    struct stat link {};
    if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
      return error(Code::not_found, "it is a symbolic link to something that does not exist");
    return error(Code::not_found, "no such file or folder");
  }
  if (error_number == ENXIO) return error(Code::invalid_argument, "it is a socket, expected a regular file");
  if (error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM)
    return error(Code::exhausted, "cannot open it: {}", reason_of(error_number));
  return error(Code::invalid_argument, "cannot open it: {}", reason_of(error_number));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "not a regular file";
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) return error(Code::invalid_argument, "its name contains a zero byte");
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cannot_open(path, errno);
  RegularFile file(fd, 0);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return error(Code::invalid_argument, "cannot read its size: {}", reason_of(errno));
  if (!S_ISREG(info.st_mode)) return error(Code::invalid_argument, "it is {}, expected a regular file", kind_of(info.st_mode));
  file.bytes_ = info.st_size;
  return file;
}

RegularFile::~RegularFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::string> RegularFile::read(std::size_t most_bytes) const {
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t n = ::read(fd_, piece, sizeof piece);
    if (n == 0) return text;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(Code::corrupt_data, "cannot read it: {}", reason_of(errno));
    text.append(piece, static_cast<std::size_t>(n));
    if (text.size() > most_bytes) return error(Code::invalid_argument, "it has more than {} bytes", most_bytes);
  }
}

}  // namespace millrace
