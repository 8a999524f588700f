#pragma once

// How Python prints: str(), repr() and json.dumps(). Bytes of strings keep their origin; punctuation, numbers and
// escapes count as the caller's, so that nothing assembled here can spell a control token.

#include <optional>
#include <string>

#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

/// repr(float): the shortest digits that read back the same.
std::string print_real(double value);

void write_str(TextBuilder& out, Workspace& ws, const Value& value);
void write_repr(TextBuilder& out, Workspace& ws, const Value& value);

/// str(value) as a string value; a string (markup or not) comes back as it is.
Value to_text(Workspace& ws, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // of one level; lines are broken when there is one
  Text item_separator, key_separator;
};

/// Raises for what JSON cannot say.
void write_json(TextBuilder& out, Workspace& ws, const Value& value, const JsonStyle& style, int level = 0);

}  // namespace millrace::text::jinja
