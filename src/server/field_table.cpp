#include "server/field_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/field_rows.h"
#include "server/json_body.h"
#include "server/tame_name.h"

namespace millrace::server {
namespace {

using text::Json;

constexpr std::size_t kMostStringBytes = 4096;  // of one of Kind::strings: each byte of an answer is compared with it

bool is_word(std::string_view word, const char* values) {
  const auto words = words_of(values);
  return std::ranges::find(words, word) != words.end();
}

bool is_neutral(const Field& field, const Json& value) {
  for (const std::string_view word : words_of(field.values))
    if (value == Json::parse(word)) return true;
  return false;
}

bool in_range(const Field& field, double value) { return value >= field.least && value <= field.most; }

bool is_id(const Json& value) {
  const auto id = as_integer(value);
  return id && *id >= 0 && static_cast<double>(*id) <= kMostInt;
}

/// Elements are looked at only once there are not too many of them: 500,000 stop strings cost nothing (O4.4).
bool are_strings(const Field& field, const Json& value) {
  const auto fits = [](const Json& one) { return one.is_string() && !one.get_ref<const std::string&>().empty() && one.get_ref<const std::string&>().size() <= kMostStringBytes; };
  return value.is_string() ? fits(value) : value.is_array() && in_range(field, static_cast<double>(value.size())) && std::ranges::all_of(value, fits);
}

bool is_right(const Field& field, const Json& value) {
  switch (field.kind) {
    case Kind::boolean: return value.is_boolean();
    case Kind::integer: {
      const auto whole = as_integer(value);
      return whole && in_range(field, static_cast<double>(*whole));
    }
    case Kind::number: return value.is_number() && in_range(field, value.get<double>());
    case Kind::positive: return value.is_number() && value.get<double>() > 0 && value.get<double>() <= field.most;
    case Kind::string: return value.is_string() && in_range(field, static_cast<double>(value.get_ref<const std::string&>().size()));
    case Kind::choice: return value.is_string() && is_word(value.get_ref<const std::string&>(), field.values);
    case Kind::strings: return are_strings(field, value);
    case Kind::ids: return value.is_array() && in_range(field, static_cast<double>(value.size())) && std::ranges::all_of(value, is_id);
    case Kind::object: return value.is_object() && value.size() <= field.most;
    case Kind::list: return value.is_array() && in_range(field, static_cast<double>(value.size()));
    case Kind::prompt: return value.is_string() || value.is_array();
    case Kind::any: return true;
  }
  return false;
}

Result<void> check_object(const Json& object, const std::string& prefix, BodyOf of, RequestContext& context) {
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    const std::string name = prefix + key;
    const Field* field = find_field(of, name);
    if (field == nullptr) {
      if (context.strict) return field_error(tame_name(name), "no field of this endpoint, and --strict refuses those");
      context.note_unknown(tame_name(name));
      continue;
    }
    if (value.is_null()) continue;
    if (field->treatment == Treatment::refused) {
      if (is_neutral(*field, value)) continue;
      return field_error(name, "not supported, got {}: {}", shown(value), field->doc);
    }
    if (!is_right(*field, value)) return field_error(name, "expected {}, got {}", expectation(*field), shown(value));
    const auto is_below = [&](const Field& one) { return (one.bodies & of) != 0 && std::string_view(one.name).starts_with(name + "."); };
    if (field->kind == Kind::object && std::ranges::any_of(fields(), is_below)) MILLRACE_TRY_VOID(check_object(value, name + ".", of, context));
  }
  return {};
}

}  // namespace

std::vector<std::string_view> words_of(const char* values) {
  std::vector<std::string_view> words;
  for (std::string_view rest = values; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> kAll = [] {
    std::vector<Field> all;
    for (const auto rows : {openai_fields(), responses_fields(), messages_fields(), text_fields()}) all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return kAll;
}

const Field* find_field(BodyOf body, std::string_view name) {
  for (const Field& field : fields())
    if ((field.bodies & body) != 0 && name == field.name) return &field;
  return nullptr;
}

std::string expectation(const Field& field) {
  switch (field.kind) {
    case Kind::boolean: return "true or false";
    case Kind::integer:
      // The largest one is no double.
      if (field.most >= 0x1p63) return fmt::format("an integer from {:.0f} to {}", field.least, INT64_MAX);
      return fmt::format("an integer from {:.0f} to {:.0f}", field.least, field.most);
    case Kind::number: return fmt::format("a number from {} to {}", field.least, field.most);
    case Kind::positive: return fmt::format("a number more than 0 and at most {}", field.most);
    case Kind::string: return fmt::format("a string of at most {:.0f} bytes", field.most);
    case Kind::choice: return fmt::format("one of {}", fmt::join(words_of(field.values), ", "));
    case Kind::strings: return fmt::format("a string or a list of at most {:.0f}, each of 1 to {} bytes", field.most, kMostStringBytes);
    case Kind::ids: return fmt::format("a list of at most {:.0f} token ids", field.most);
    case Kind::object: return fmt::format("an object of at most {:.0f} members", field.most);
    case Kind::list: return fmt::format("a list of {:.0f} to {:.0f} elements", field.least, field.most);
    case Kind::prompt: return "a string, a list of strings, of token ids, or of lists of token ids";
    case Kind::any: return "a value";
  }
  return "";
}

Result<void> check_fields(const Json& body, BodyOf of, RequestContext& context) {
  MILLRACE_CHECK(body.is_object(), "parse_body returns objects");
  return check_object(body, "", of, context);
}

std::optional<std::int64_t> as_integer(const Json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: up to there each whole number is a double
  if (value.is_number_unsigned()) {
    const auto large = value.get<std::uint64_t>();
    return large <= static_cast<std::uint64_t>(INT64_MAX) ? std::optional(static_cast<std::int64_t>(large)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  return std::trunc(number) == number && std::fabs(number) <= kExact ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

std::string shown(const Json& value) {
  constexpr std::size_t kShown = 60;
  const auto counted = [&] {
    return fmt::format("{} of {} {}{}", value.is_array() ? "a list" : "an object", value.size(), value.is_array() ? "element" : "member", value.size() == 1 ? "" : "s");
  };
  if (value.is_structured() && value.size() > kShown) return counted();
  if (value.is_string() && value.get_ref<const std::string&>().size() > kShown) return fmt::format("a string of {} bytes", value.get_ref<const std::string&>().size());
  const std::string text = dump(value);
  return text.size() > kShown && value.is_structured() ? counted() : text;
}

const Json* Fields::find(std::string_view name) const {
  const Field* field = find_field(of_, name);
  if (field == nullptr || field->treatment != Treatment::applied) return nullptr;
  const Json* at = body_;
  while (true) {
    const std::size_t dot = name.find('.');
    const auto found = at->find(std::string(name.substr(0, dot)));
    if (found == at->end() || found->is_null()) return nullptr;
    if (dot == std::string_view::npos) return &*found;
    if (!found->is_object()) return nullptr;
    at = &*found;
    name.remove_prefix(dot + 1);
  }
}

std::optional<double> Fields::number(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr ? as_integer(*value) : std::nullopt;
}

bool Fields::boolean(std::string_view name, bool fallback) const {
  const Json* value = find(name);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : fallback;
}

std::optional<std::string> Fields::string(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr && value->is_string() ? std::optional(value->get<std::string>()) : std::nullopt;
}

std::vector<std::string> Fields::strings(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  return value->get<std::vector<std::string>>();
}

}  // namespace millrace::server
