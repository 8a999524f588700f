#pragma once

// The key-value part of a model file (GGUF metadata), as both pillars may read it: `io` fills it, `model` and
// `text` look keys up. Strings are views into the mapped file and live as long as the source that made them.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace millrace {

/// Integers are widened: signed ones to int64, unsigned ones to uint64; f32 to double.
using MetadataValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view,
                                   std::vector<bool>, std::vector<std::int64_t>, std::vector<std::uint64_t>,
                                   std::vector<double>, std::vector<std::string_view>>;

class Metadata {
 public:
  /// nullptr when absent.
  const MetadataValue* find(std::string_view key) const;

  /// Errors of all get_*: not_found when absent, corrupt_data when of another type or out of range; both name the key.
  Result<std::int64_t> get_int(std::string_view key, std::int64_t least, std::int64_t most) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;

  /// The same with a value for an absent key; a wrong type or range is still an error.
  Result<std::int64_t> get_int_or(std::string_view key, std::int64_t fallback, std::int64_t least, std::int64_t most) const;
  Result<double> get_float_or(std::string_view key, double fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;

  /// False when the key is there already; the first one stays.
  bool insert(std::string key, MetadataValue value);

  const std::map<std::string, MetadataValue, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, MetadataValue, std::less<>> values_;
};

}  // namespace millrace
