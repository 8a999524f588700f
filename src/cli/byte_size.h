#pragma once

// Amounts of memory as people write them: "4GiB", "500MB", "30%".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::cli {

/// "138.4 MiB": binary units, one decimal above 1023 bytes.
std::string byte_text(std::int64_t bytes);

/// A whole or decimal number and a unit: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024), in any
/// case; without a unit bytes. From 1 byte to 2^62. Errors: invalid_argument.
Result<std::int64_t> parse_byte_size(std::string_view text);

/// A share of what is free, or bytes.
struct MemoryAmount {
  std::int64_t bytes = 0;  // when percent is 0
  double percent = 0;      // (0, 100]

  std::int64_t of(std::int64_t free_bytes) const {
    return percent > 0 ? static_cast<std::int64_t>(static_cast<double>(free_bytes) * percent / 100) : bytes;
  }
};

/// "30%" or a byte size. Errors: invalid_argument.
Result<MemoryAmount> parse_memory_amount(std::string_view text);

}  // namespace millrace::cli
