#pragma once

// Numbers and strings laid out in a width, shared by `%` and str.format.

#include <cstdint>
#include <string>

#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

struct FormatSpec {
  Text fill = Text(" ", Origin::caller);
  char align = 0;            // < > = ^; 0: the type's own
  char sign = '-';           // - + or blank
  bool alternate = false;    // #
  char grouping = 0;         // , or _
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = 0;             // d x X o b c e E f F g G n % s; 0: the type's own
};

/// A number or string by str.format's rules. Raises for a type code that does not fit the value.
void write_formatted(TextBuilder& out, const Value& value, const FormatSpec& spec);

/// `text` between its padding.
void write_padded(TextBuilder& out, const Text& text, const FormatSpec& spec, char own_align);

/// str.format: `{}`, `{0}`, `{name.attribute[0]!r:>8}`.
Value brace_format(Workspace& ws, const Value& format, const Args& args);

}  // namespace millrace::text::jinja
