#include "io/json_walk.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <vector>

#include "io/printable.h"

namespace millrace::io {
namespace {

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kLongestKey = 1024;
constexpr std::size_t kMostKeys = std::size_t{1} << 19;

/// The library's parser is iterative and stops when an event returns false; this adds what it leaves open.
class Walk final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Walk(JsonHandler& handler, std::size_t text_bytes) : handler_(handler), text_bytes_(text_bytes) {}

  Result<void> result() && {
    if (failure_) return *std::move(failure_);
    return {};
  }

  bool null() override { return scalar({}); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool binary(binary_t&) override { return fail(error(Code::corrupt_data, "it holds binary data")); }

  bool start_object(std::size_t) override { return open(JsonContainer::object); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(JsonContainer::array); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    if (key.size() > kLongestKey)
      return fail(error(Code::corrupt_data, "it has a key of {} bytes, at most {} are read", key.size(), kLongestKey));
    auto& keys = keys_.back();
    if (keys.size() == kMostKeys)
      return fail(error(Code::corrupt_data, "it has an object of more than {} keys", kMostKeys));
    path_.back().key = key;
    if (!keys.insert(std::move(key)).second)
      return fail(error(Code::corrupt_data, "the key {} is there twice", to_string(path_)));
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (position > text_bytes_)
      return fail(error(Code::corrupt_data, "it is not valid JSON: it ends too early, after {} bytes", text_bytes_));
    return fail(error(Code::corrupt_data, "it is not valid JSON at byte {} of {}", position, text_bytes_));
  }

 private:
  bool fail(Error error) {
    failure_ = std::move(error);
    return false;
  }
  bool keep_going(Result<void> result) { return result.ok() || fail(std::move(result).error()); }

  void next_element() {
    if (!path_.empty() && in_array_.back()) ++path_.back().index;
  }

  bool scalar(JsonScalar&& value) {
    next_element();
    return keep_going(handler_.value(path_, std::move(value)));
  }

  bool open(JsonContainer container) {
    next_element();
    if (path_.size() == kDeepest) return fail(error(Code::corrupt_data, "it is nested more than {} deep", kDeepest));
    if (!keep_going(handler_.open(path_, container))) return false;
    in_array_.push_back(container == JsonContainer::array);
    keys_.emplace_back();
    path_.emplace_back();
    return true;
  }

  bool close() {
    path_.pop_back();
    keys_.pop_back();
    in_array_.pop_back();
    return keep_going(handler_.close(path_));
  }

  JsonHandler& handler_;
  std::size_t text_bytes_;
  std::vector<JsonStep> path_;  // one step for each open container
  std::vector<bool> in_array_;
  std::vector<std::set<std::string>> keys_;  // not a hash table: the keys are chosen by strangers
  std::optional<Error> failure_;
};

class Flatten final : public JsonHandler {
 public:
  explicit Flatten(FlatJson& out) : out_(out) {}

  Result<void> open(JsonPath path, JsonContainer container) override {
    if (path.empty() && container == JsonContainer::array) return no_object();
    if (container == JsonContainer::array) ++arrays_;
    containers_.push_back(container);
    return {};
  }

  Result<void> close(JsonPath) override {
    if (containers_.back() == JsonContainer::array) --arrays_;
    containers_.pop_back();
    return {};
  }

  Result<void> value(JsonPath path, JsonScalar&& scalar) override {
    if (path.empty()) return no_object();
    if (arrays_ > 0 || std::holds_alternative<std::monostate>(scalar)) return {};
    std::string name;
    for (const JsonStep& step : path) {
      if (!name.empty()) name += '.';
      name += step.key;
    }
    if (out_.metadata.insert(std::move(name), kept(std::move(scalar)))) return {};
    return error(Code::corrupt_data, "the key {} is there twice", to_string(path));  // {"a.b": 1, "a": {"b": 2}}
  }

 private:
  static Error no_object() { return error(Code::corrupt_data, "it is not a JSON object"); }

  MetadataValue kept(JsonScalar&& scalar) {
    if (const auto* b = std::get_if<bool>(&scalar)) return *b;
    if (const auto* i = std::get_if<std::int64_t>(&scalar)) return *i;
    if (const auto* u = std::get_if<std::uint64_t>(&scalar)) return *u;
    if (const auto* d = std::get_if<double>(&scalar)) return *d;
    return std::string_view(out_.strings.emplace_back(std::get<std::string>(std::move(scalar))));
  }

  FlatJson& out_;
  std::vector<JsonContainer> containers_;
  int arrays_ = 0;  // how many of the open containers are arrays
};

}  // namespace

std::string to_string(JsonPath path) {
  if (path.empty()) return "the top level";
  std::string out;
  for (const JsonStep& step : path) {
    if (step.index >= 0) {
      out += fmt::format("[{}]", step.index);
    } else {
      if (!out.empty()) out += '.';
      out += printable(step.key);
    }
  }
  return out;
}

Result<void> walk_json(std::string_view text, JsonHandler& handler) {
  Walk walk(handler, text.size());
  nlohmann::json::sax_parse(text.begin(), text.end(), &walk);
  return std::move(walk).result();
}

Result<FlatJson> flatten_json(std::string_view text) {
  FlatJson out;
  Flatten handler(out);
  MILLRACE_TRY_VOID(walk_json(text, handler));
  return out;
}

}  // namespace millrace::io
