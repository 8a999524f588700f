#pragma once

// The tree of a template. Built once by the parser, immutable, shared by renderings in any number of threads. Its
// height is bounded by the parser, so that walking and destroying it cannot exhaust the stack.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/arithmetic.h"
#include "text/jinja/methods.h"

namespace millrace::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<Value, ExpressionPtr>> named;
  ExpressionPtr star, star_star;
};

enum class Comparison : unsigned char { eq, ne, lt, le, gt, ge, in, not_in };

struct Expression {
  enum class Kind : unsigned char {
    literal,      // value
    name,         // name
    member,       // name.attribute as the target of a set; `attribute` in value
    list, tuple,  // parts
    dict,         // parts: key, value, key, value, ...
    attribute,    // parts[0].name
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]], bounds may be null
    call,         // parts[0](arguments)
    filter,       // parts[0] | name(arguments); parts[0] is null in a set or filter block: the block's text
    test,         // parts[0] is name(arguments)
    arithmetic,   // parts[0] ops[0] parts[1] ops[1] parts[2] ..., from left to right
    concat,       // parts joined as text: ~
    comparison,   // parts[0] comparisons[0] parts[1] ..., chained
    logical_and, logical_or,  // parts
    logical_not, negative, positive,  // parts[0]
    conditional,  // parts[0] if parts[1] else parts[2]; parts[2] may be null
  };

  Kind kind;
  int line;
  int height = 1;  // of the tree below and including this
  Value value;
  std::string name;
  std::vector<ExpressionPtr> parts;
  std::vector<Op> ops;
  std::vector<Comparison> comparisons;
  const MethodEntry* entry = nullptr;  // of a filter or test; nullptr when there is none of that name
  std::unique_ptr<CallArguments> arguments;
};

struct Statement;
using Block = std::vector<Statement>;

struct MacroDefinition {
  std::string name;  // "" for the body of a call block
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  Block body;
};

struct Statement {
  enum class Kind : unsigned char {
    data,          // text
    output,        // expression
    set,           // target = expression
    set_block,     // target = body | expression, a chain of filters or null
    branch,        // branches in order, then otherwise
    loop,          // for target in expression if filter recursive: body, otherwise
    with,          // bindings, body
    macro,         // macro
    call,          // call expression with the macro as its caller
    filter,        // body through expression
    scope,         // body in a scope of its own
    block,         // body, which sees only the template's top level
    break_loop, continue_loop,
    other_template,  // include, import, from, extends: there is no other template; name says which
  };

  Kind kind;
  int line;
  Value text;
  std::string name;
  ExpressionPtr target, expression, filter;
  bool recursive = false;
  Block body, otherwise;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> bindings;
  std::unique_ptr<MacroDefinition> macro;
};

/// Raises corrupt_data with the line.
Block parse(std::string_view source);

}  // namespace millrace::text::jinja
