#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace millrace::io {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string reason_of(int error_number) { return std::generic_category().message(error_number); }

Error cannot_open(const std::string& path, int error_number) {
  if (error_number == ENOENT) {
    struct stat link {};
    if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
      return error(Code::not_found, "it is a symbolic link to something that does not exist");
    return error(Code::not_found, "no such file or folder");
  }
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

Result<MappedFile> MappedFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) return error(Code::invalid_argument, "its name contains a zero byte");
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return cannot_open(path, errno);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return error(Code::invalid_argument, "cannot read its size: {}", reason_of(errno));
  if (!S_ISREG(info.st_mode))
    return error(Code::invalid_argument, "it is {}, expected a regular file", kind_of(info.st_mode));
  if (info.st_size <= 0) return error(Code::corrupt_data, "the file is empty");
  const auto size = static_cast<std::size_t>(info.st_size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (start == MAP_FAILED) return error(Code::exhausted, "cannot map {} bytes: {}", size, reason_of(errno));
  return MappedFile({static_cast<const std::byte*>(start), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (start + page - 1) / page * page, last = (start + bytes.size()) / page * page;
  // Advice only: when the system declines, the pages stay, and nothing else changes.
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Result<std::string> read_text_file(const std::string& path, std::size_t most_bytes) {
  MILLRACE_TRY(file, MappedFile::open(path));
  if (file.text().size() > most_bytes)
    return error(Code::corrupt_data, "the file has {} bytes, at most {} are read", file.text().size(), most_bytes);
  return std::string(file.text());
}

}  // namespace millrace::io
