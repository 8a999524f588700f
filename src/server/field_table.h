#pragma once

// Every field of every body that a client may send, once: what it may be, and what becomes of it. Bodies are checked against
// these rows before a planner reads them, the tests walk them, and /openapi.json is made of them. Knows fields one by one; what
// holds between two of them is the planners' to say.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/request_context.h"
#include "text/chat_template.h"

namespace millrace::server {

/// Which body a field stands in; bits, because many stand in several.
enum BodyOf : unsigned {
  kChat = 1,            // /v1/chat/completions
  kCompletion = 2,      // /v1/completions
  kEmbedding = 4,       // /v1/embeddings
  kResponse = 8,        // /v1/responses
  kMessage = 16,        // /v1/messages
  kCountTokens = 32,    // /v1/messages/count_tokens
  kTokenize = 64,       // /tokenize
  kDetokenize = 128,    // /detokenize
  kApplyTemplate = 256  // /apply-template
};
inline constexpr BodyOf kBodies[] = {kChat, kCompletion, kEmbedding, kResponse, kMessage, kCountTokens, kTokenize, kDetokenize, kApplyTemplate};

enum class Kind {
  boolean,
  integer,
  number,
  positive,  // a number more than 0
  string,    // least to most bytes
  choice,    // a string, one of `values`
  strings,   // one, or a list of at most `most`; each of 1 to 4096 bytes
  ids,       // a list of at most `most` token ids
  object,
  list,      // at most `most` elements
  prompt,    // a string, a list of strings, of token ids, or of lists of token ids
  any,       // the planner looks closer
};

enum class Treatment {
  applied,
  ignored,  // it asks for nothing that would change the answer: `doc` says why
  refused,  // 400, unless it is null or one of `values`
};

struct Field {
  const char* name;  // "stream_options.include_usage" is a field within an object that has a row itself
  unsigned bodies;   // BodyOf
  Kind kind;
  double least, most;
  Treatment treatment;
  const char* values;   // blank-separated: of a choice, its words; of a refused field, the JSON values that ask for nothing
  const char* example;  // JSON: a right value, and for a refused field one that asks for something
  const char* doc;      // one line
};

/// All rows.
const std::vector<Field>& fields();

/// The row of that name in that body, or nullptr.
const Field* find_field(BodyOf body, std::string_view name);

/// "a number from 0 to 2"
std::string expectation(const Field& field);

/// Types, ranges and refusals of all fields of `body`. Null is as good as absent. Fields without a row are refused when
/// context.strict, else their names go to context.unknown_fields: some, shortened, fit for a header.
Result<void> check_fields(const text::Json& body, BodyOf of, RequestContext& context);

/// The rows of a body as a JSON Schema object, for /openapi.json.
text::Json body_schema(BodyOf body);

/// A whole number, also where it is written 5.0; nullopt: none, or none that 64 bits hold.
std::optional<std::int64_t> as_integer(const text::Json& value);

/// `value` on one line, shortened: for messages.
std::string shown(const text::Json& value);

/// A body that passed check_fields, read by name.
class Fields {
 public:
  Fields(const text::Json& body, BodyOf of) : body_(&body), of_(of) {}

  /// nullptr: absent, null, or nothing that this body's endpoint applies. Dotted names look into objects.
  const text::Json* find(std::string_view name) const;

  std::optional<double> number(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  bool boolean(std::string_view name, bool fallback) const;
  std::optional<std::string> string(std::string_view name) const;
  std::vector<std::string> strings(std::string_view name) const;  // one or many

 private:
  const text::Json* body_;
  BodyOf of_;
};

}  // namespace millrace::server
