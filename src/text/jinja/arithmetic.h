#pragma once

// The operators + - * / // % ** and unary -, for numbers, strings and sequences, as in Python.
// Integers have 64 bits: a result that does not fit is an error, never a wrapped number.

#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

enum class Op : unsigned char { add, subtract, multiply, divide, floor_divide, modulo, power };

Value apply(Workspace& ws, Op op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

/// value with & < > " ' as HTML entities, marked as safe; what is marked already stays.
Value escaped(Workspace& ws, const Value& value);

/// `format % values`.
Value percent_format(Workspace& ws, const Value& format, const Value& values);

}  // namespace millrace::text::jinja
