#pragma once

// A place in a JSON file that knows its path, so that every complaint names it. Only for the files of a Hugging Face
// folder; included by hf_*.cpp alone, because the JSON library is slow to compile.

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::text {

struct JsonAt {
  const nlohmann::json* value;
  std::string path;  // "tokenizer.json: pre_tokenizer.pretokenizers[1]"

  /// The root; `name` is the file's.
  static JsonAt root(const nlohmann::json& value, const char* name) { return {&value, std::string(name) + ":"}; }

  /// null where the key is absent or this is no object.
  JsonAt operator[](const char* key) const {
    static const nlohmann::json kNull;
    const std::string below = path + (path.back() == ':' ? " " : ".") + key;
    if (!value->is_object()) return {&kNull, below};
    const auto found = value->find(key);
    return {found == value->end() ? &kNull : &*found, below};
  }

  /// Element `i` of an array that has one.
  JsonAt item(std::size_t i) const { return {&(*value)[i], fmt::format("{}[{}]", path, i)}; }

  bool is_null() const { return value->is_null(); }

  Error expected(std::string_view what) const {
    constexpr std::size_t kShown = 60;
    std::string got = value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (got.size() > kShown) got = fmt::format("{} of {} bytes", value->type_name(), got.size());
    return error(Code::corrupt_data, "{}: expected {}, got {}", path, what, got);
  }
  Error unsupported() const {
    Error refusal = expected("something this build supports");
    refusal.code = Code::unsupported;
    return refusal;
  }

  Result<std::string> string() const {
    if (!value->is_string()) return expected("a string");
    return value->get<std::string>();
  }
  Result<bool> boolean_or(bool fallback) const {
    if (is_null()) return fallback;
    if (!value->is_boolean()) return expected("a bool");
    return value->get<bool>();
  }
  Result<std::int64_t> integer(std::int64_t least, std::int64_t most) const {
    const bool fits = value->is_number_integer() && *value >= least && *value <= most;
    if (!fits) return expected(fmt::format("an integer from {} to {}", least, most));
    return value->get<std::int64_t>();
  }
  Result<std::size_t> array_size() const {
    if (!value->is_array()) return expected("an array");
    return value->size();
  }
};

}  // namespace millrace::text
