#pragma once

// JSON text as a stream of events with bounded memory: strict syntax, bounded depth, no key twice in one object.
// What untrusted JSON files in a model folder go through; no tree is built. Knows no schema.

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/metadata.h"
#include "base/result.h"

namespace millrace::io {

/// One level of a path: a key of an object, or (index >= 0) a place in an array.
struct JsonStep {
  std::string key;
  std::int64_t index = -1;
};
using JsonPath = std::span<const JsonStep>;

/// null, bool, integer (unsigned when it is not negative), other number, string.
using JsonScalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string>;

/// "rope_scaling.factor", "shape[0]", "the top level"; fit for a message.
std::string to_string(JsonPath path);

enum class JsonContainer { object, array };

/// Gets the events in the order of the text. The first error ends the walk.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual Result<void> open(JsonPath path, JsonContainer container) = 0;
  virtual Result<void> value(JsonPath path, JsonScalar&& scalar) = 0;
  virtual Result<void> close(JsonPath path) = 0;
};

/// Errors: corrupt_data (syntax with its byte, nesting deeper than 16, a key twice, longer than 1024 bytes or one of
/// more than 2^19 in its object), and whatever the handler returns.
Result<void> walk_json(std::string_view text, JsonHandler& handler);

/// A JSON object as flat metadata: {"rope_scaling": {"factor": 8}} has the key "rope_scaling.factor". null is
/// left out, and so is all that lies in arrays.
struct FlatJson {
  std::deque<std::string> strings;  // what the string values of `metadata` view; a deque, so that they stay put
  Metadata metadata;
};

/// Errors: those of walk_json, and corrupt_data when `text` is no object.
Result<FlatJson> flatten_json(std::string_view text);

}  // namespace millrace::io
