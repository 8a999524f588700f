#include "device/memory.h"

#include <sys/mman.h>

#include <utility>

namespace millrace::device {

Buffer::Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_) ::munmap(data_, size_);
}

Result<Buffer> Buffer::allocate(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return error(Code::exhausted, "the system has no room for {} bytes", bytes);
  if (bytes >= 4 * kHuge) (void)::madvise(data, bytes, MADV_HUGEPAGE);  // fewer TLB misses when weights stream by
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace millrace::device
