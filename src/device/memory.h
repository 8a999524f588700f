#pragma once

// Large blocks of memory straight from the system: page aligned, zero on first touch, huge pages where it gives them.

#include <cstddef>

#include "base/result.h"

namespace millrace::device {

/// Owns bytes. Move-only. The pages are not resident before they are touched.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  /// Errors: exhausted, with the size.
  static Result<Buffer> allocate(std::size_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace millrace::device
