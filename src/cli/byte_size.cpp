#include "cli/byte_size.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>

#include "base/ascii.h"

namespace millrace::cli {
namespace {

struct Unit { std::string_view name; double bytes; };
constexpr Unit kUnits[] = {{"", 1},       {"b", 1},         {"kb", 1e3},        {"mb", 1e6},        {"gb", 1e9},
                           {"tb", 1e12},  {"kib", 0x1p10},  {"mib", 0x1p20},    {"gib", 0x1p30},    {"tib", 0x1p40}};

/// The number in front; `text` keeps what follows. Digits and a point only: no sign, no exponent.
std::optional<double> take_number(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && ((text[n] >= '0' && text[n] <= '9') || text[n] == '.')) ++n;
  double value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + n, value, std::chars_format::fixed);
  if (failure != std::errc{} || stop != text.data() + n) return std::nullopt;
  text.remove_prefix(n);
  return value;
}

}  // namespace

std::string byte_text(std::int64_t bytes) {
  constexpr const char* kNames[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kNames); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

Result<std::int64_t> parse_byte_size(std::string_view text) {
  std::string_view rest = text;
  if (const auto number = take_number(rest)) {
    const std::string name = ascii_lower(rest);
    for (const Unit& unit : kUnits) {
      const double bytes = *number * unit.bytes;
      if (name == unit.name && bytes >= 1 && bytes <= 0x1p62) return static_cast<std::int64_t>(bytes);
    }
  }
  return error(Code::invalid_argument, "expected a size like 4GiB or 500MB, got '{}'", text);
}

Result<MemoryAmount> parse_memory_amount(std::string_view text) {
  if (!text.ends_with('%')) {
    if (const auto bytes = parse_byte_size(text)) return MemoryAmount{.bytes = *bytes};
  } else {
    std::string_view rest = text;
    if (const auto number = take_number(rest); number && rest == "%" && *number > 0 && *number <= 100) return MemoryAmount{.percent = *number};
  }
  return error(Code::invalid_argument, "expected a size like 4GiB or a share like 30%, got '{}'", text);
}

}  // namespace millrace::cli
