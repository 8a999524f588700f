#pragma once

// What methods and filters of strings share: letter case, stripping, lines, replacing, padding.

#include <vector>

#include "text/jinja/format.h"
#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

enum class Case : unsigned char { upper, lower, titled, capitalized, swapped, folded };

/// Each character of the result has the origin of the one it came from.
Value in_case(Workspace& ws, const Value& string, Case to);

/// Without white space, or the characters of `chars`, at the ends.
Value stripped(Workspace& ws, const Value& string, const Value* chars, bool left = true, bool right = true);

std::vector<Value> lines_of(Workspace& ws, const Value& string, bool keep_ends);

/// At most `count` replacements; all when it is negative.
Value replaced(Workspace& ws, const Value& string, const Value& old, const Value& with, std::int64_t count);

Value padded(Workspace& ws, const Value& string, const FormatSpec& spec, char align);

/// str.center: an odd blank goes left when the width is odd, unlike `^` of a format.
Value centered(Workspace& ws, const Value& string, std::int64_t width, const Text& fill);

}  // namespace millrace::text::jinja
