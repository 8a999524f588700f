#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/regular_file.h"

namespace millrace::io {

Result<MappedFile> MappedFile::open(const std::string& path) {
  MILLRACE_TRY(file, RegularFile::open(path));
  if (file.bytes() <= 0) return error(Code::corrupt_data, "the file is empty");
  const auto size = static_cast<std::size_t>(file.bytes());
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (start == MAP_FAILED) return error(Code::exhausted, "cannot map {} bytes: {}", size, std::generic_category().message(errno));
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
