#include "cli/load_chunk.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace millrace::cli {
namespace {

using Json = nlohmann::json;

// Where in a chunk the reader is. Everything that no field here needs is `other`.
enum class Place : std::uint8_t { outside, root, choices, choice, delta, usage, details, error, other };

/// Sees values go by and builds nothing: a client that shares the machine with the server should take little of it.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(ChunkFacts& facts) : facts_(facts) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t value) override {
    const int n = static_cast<int>(std::min<number_unsigned_t>(value, std::numeric_limits<int>::max()));
    if (place() == Place::usage && key_ == "prompt_tokens") facts_.usage.prompt_tokens = n;
    if (place() == Place::usage && key_ == "completion_tokens") facts_.usage.completion_tokens = n;
    if (place() == Place::details && key_ == "cached_tokens") facts_.usage.cached_tokens = n;
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool string(string_t& value) override {
    switch (place()) {
      case Place::choice:
        if (key_ == "text" && !value.empty()) facts_.has_text = true;
        break;
      case Place::delta:
        if (!value.empty() && (key_ == "content" || key_ == "reasoning_content" || key_ == "reasoning")) facts_.has_text = true;
        break;
      case Place::error:
        if (key_ == "message") facts_.error = value;
        break;
      case Place::root:  // {"error": "..."}, {"object": "error", "message": "..."}, {"detail": "..."}: three older forms
        if (key_ == "error" || (key_ == "object" && value == "error")) facts_.has_error = true;
        if (key_ == "error" || ((key_ == "message" || key_ == "detail") && facts_.error.empty())) facts_.error = value;
        break;
      default: break;
    }
    return true;
  }

  bool start_object(std::size_t) override { return enter(inner(), Place::other); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(Place::other, place() == Place::root && key_ == "choices" ? Place::choices : Place::other); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override { return key_.swap(name), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr std::size_t kDepth = 8;  // everything of interest lies above

  Place place() const { return depth_ == 0 ? Place::outside : depth_ <= kDepth ? places_[depth_ - 1] : Place::other; }

  Place inner() {
    switch (place()) {
      case Place::outside: return Place::root;
      case Place::root:
        if (key_ == "usage") return Place::usage;
        if (key_ != "error") return Place::other;
        return facts_.has_error = true, Place::error;
      case Place::choices: return Place::choice;
      case Place::choice: return key_ == "delta" ? Place::delta : Place::other;
      case Place::usage: return key_ == "prompt_tokens_details" ? Place::details : Place::other;
      default: return Place::other;
    }
  }

  bool enter(Place object, Place array) {
    if (depth_ < kDepth) places_[depth_] = object != Place::other ? object : array;
    ++depth_;
    return true;
  }
  bool leave() { return --depth_, true; }

  ChunkFacts& facts_;
  std::string key_;
  std::array<Place, kDepth> places_{};
  std::size_t depth_ = 0;
};

}  // namespace

ChunkFacts read_chunk(std::string_view json) {
  ChunkFacts facts;
  Reader reader(facts);
  facts.is_json = Json::sax_parse(json.begin(), json.end(), &reader);
  return facts;
}

std::string error_sentence(std::string_view body) {
  constexpr std::size_t kMost = 200;
  const ChunkFacts facts = read_chunk(body);
  std::string text = facts.is_json && !facts.error.empty() ? facts.error : std::string(body);
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.size() > kMost) text.resize(kMost), text += "...";
  return text;
}

}  // namespace millrace::cli
