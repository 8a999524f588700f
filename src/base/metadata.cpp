#include "base/metadata.h"

#include <limits>

namespace millrace {
namespace {

const char* type_name(const MetadataValue& value) {
  constexpr const char* kNames[] = {"a bool",           "an integer",        "an integer",        "a float",          "a string",
                                    "a list of bools",  "a list of integers", "a list of integers", "a list of floats", "a list of strings"};
  return kNames[value.index()];
}

Error missing(std::string_view key) { return error(Code::not_found, "metadata key '{}' is missing", key); }

Error wrong_type(std::string_view key, const MetadataValue& value, const char* want) {
  return error(Code::corrupt_data, "metadata key '{}' is {}, expected {}", key, type_name(value), want);
}

}  // namespace

const MetadataValue* Metadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool Metadata::insert(std::string key, MetadataValue value) {
  return values_.emplace(std::move(key), std::move(value)).second;
}

Result<std::int64_t> Metadata::get_int(std::string_view key, std::int64_t least, std::int64_t most) const {
  const MetadataValue* value = find(key);
  if (!value) return missing(key);
  std::int64_t number = 0;
  if (const auto* s = std::get_if<std::int64_t>(value)) {
    number = *s;
  } else if (const auto* u = std::get_if<std::uint64_t>(value)) {
    if (*u > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return error(Code::corrupt_data, "metadata key '{}' is {}, expected {} to {}", key, *u, least, most);
    number = static_cast<std::int64_t>(*u);
  } else {
    return wrong_type(key, *value, "an integer");
  }
  if (number < least || number > most)
    return error(Code::corrupt_data, "metadata key '{}' is {}, expected {} to {}", key, number, least, most);
  return number;
}

Result<double> Metadata::get_float(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (!value) return missing(key);
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto* s = std::get_if<std::int64_t>(value)) return static_cast<double>(*s);
  if (const auto* u = std::get_if<std::uint64_t>(value)) return static_cast<double>(*u);
  return wrong_type(key, *value, "a number");
}

Result<bool> Metadata::get_bool(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (!value) return missing(key);
  if (const auto* b = std::get_if<bool>(value)) return *b;
  return wrong_type(key, *value, "a bool");
}

Result<std::string_view> Metadata::get_string(std::string_view key) const {
  const MetadataValue* value = find(key);
  if (!value) return missing(key);
  if (const auto* s = std::get_if<std::string_view>(value)) return *s;
  return wrong_type(key, *value, "a string");
}

Result<std::int64_t> Metadata::get_int_or(std::string_view key, std::int64_t fallback, std::int64_t least, std::int64_t most) const {
  return find(key) ? get_int(key, least, most) : fallback;
}
Result<double> Metadata::get_float_or(std::string_view key, double fallback) const {
  return find(key) ? get_float(key) : fallback;
}
Result<bool> Metadata::get_bool_or(std::string_view key, bool fallback) const { return find(key) ? get_bool(key) : fallback; }
Result<std::string_view> Metadata::get_string_or(std::string_view key, std::string_view fallback) const {
  return find(key) ? get_string(key) : fallback;
}

}  // namespace millrace
