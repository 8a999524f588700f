#include "text/jinja/access.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/is_tests.h"
#include "text/jinja/print.h"

namespace millrace::text::jinja {

Value Interpreter::eval(const Expression& expression, Scope& scope) {
  using Kind = Expression::Kind;
  const Workspace::Nest nest(ws_);
  ws_.spend();
  const auto part = [&](std::size_t i) { return eval(*expression.parts[i], scope); };
  const auto part_or_none = [&](std::size_t i) { return expression.parts[i] ? part(i) : Value(); };
  switch (expression.kind) {
    case Kind::literal: return expression.value;
    case Kind::name: return eval_name(expression, scope);
    case Kind::list:
    case Kind::tuple: return eval_sequence(expression, scope);
    case Kind::dict: return eval_dict(expression, scope);
    case Kind::attribute: return attribute(ws_, part(0), expression.name);
    case Kind::item: {
      const Value of = part(0);
      return item(ws_, of, part(1));
    }
    case Kind::slice: {
      const Value of = part(0), first = part_or_none(1), last = part_or_none(2);
      return slice(ws_, of, first, last, part_or_none(3));
    }
    case Kind::call: return eval_call(expression, scope, nullptr);
    case Kind::filter: return eval_filter(expression, scope);
    case Kind::test: {
      const Value subject = part(0);
      Args args = arguments(expression.arguments.get(), scope);
      return Value(apply_test(ws_, expression.entry, expression.name, subject, args));
    }
    case Kind::arithmetic: return eval_arithmetic(expression, scope);
    case Kind::concat: return eval_concat(expression, scope);
    case Kind::comparison: return eval_comparison(expression, scope);
    case Kind::logical_and:
    case Kind::logical_or: return eval_logical(expression, scope);
    case Kind::logical_not: return Value(!truth(part(0)));
    case Kind::negative: return negate(part(0));
    case Kind::positive: return plus(part(0));
    case Kind::conditional: return eval_conditional(expression, scope);
    case Kind::member: break;  // only a target
  }
  raise("a namespace member is no expression");
}

Value Interpreter::eval_name(const Expression& expression, Scope& scope) {
  const Value* found = scope.find(expression.name);
  return found != nullptr ? *found : ws_.undefined("'{}' is undefined", expression.name);
}

Value Interpreter::eval_sequence(const Expression& expression, Scope& scope) {
  std::vector<Value> items;
  items.reserve(expression.parts.size());
  for (const ExpressionPtr& part : expression.parts) items.push_back(eval(*part, scope));
  return expression.kind == Expression::Kind::list ? ws_.list(std::move(items)) : ws_.tuple(std::move(items));
}

Value Interpreter::eval_dict(const Expression& expression, Scope& scope) {
  Dict& dict = ws_.dict();
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    const Value key = eval(*expression.parts[i], scope);
    put(ws_, dict, key, eval(*expression.parts[i + 1], scope));
  }
  return Value(&dict);
}

Value Interpreter::eval_filter(const Expression& expression, Scope& scope) {
  const Value subject = expression.parts[0] ? eval(*expression.parts[0], scope) : *piped_;
  Args args = arguments(expression.arguments.get(), scope);
  return apply_filter(ws_, expression.entry, expression.name, subject, args);
}

Value Interpreter::eval_piped(const Expression& filters, const Value& text, Scope& scope) {
  const Value* const before = std::exchange(piped_, &text);
  Value result = eval(filters, scope);
  piped_ = before;
  return result;
}

Value Interpreter::eval_arithmetic(const Expression& expression, Scope& scope) {
  Value total = eval(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.ops.size(); ++i) total = apply(ws_, expression.ops[i], total, eval(*expression.parts[i + 1], scope));
  return total;
}

Value Interpreter::eval_concat(const Expression& expression, Scope& scope) {
  TextBuilder out(ws_);
  for (const ExpressionPtr& part : expression.parts) write_str(out, ws_, eval(*part, scope));
  return out.value();
}

Value Interpreter::eval_comparison(const Expression& expression, Scope& scope) {
  const auto holds = [&](Comparison how, const Value& a, const Value& b) {
    switch (how) {
      case Comparison::eq: return equal(ws_, a, b);
      case Comparison::ne: return !equal(ws_, a, b);
      case Comparison::lt: return less(ws_, a, b);
      case Comparison::gt: return less(ws_, b, a, ">");
      case Comparison::le: return less(ws_, a, b, "<=") || equal(ws_, a, b);
      case Comparison::ge: return less(ws_, b, a, ">=") || equal(ws_, a, b);
      case Comparison::in: return contains(ws_, b, a);
      case Comparison::not_in: return !contains(ws_, b, a);
    }
    return false;
  };
  Value left = eval(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    Value right = eval(*expression.parts[i + 1], scope);
    if (!holds(expression.comparisons[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

/// Like Python's: the operand that decided, not its truth.
Value Interpreter::eval_logical(const Expression& expression, Scope& scope) {
  const bool decides = expression.kind == Expression::Kind::logical_or;
  Value value;
  for (const ExpressionPtr& part : expression.parts) {
    value = eval(*part, scope);
    if (truth(value) == decides) break;
  }
  return value;
}

Value Interpreter::eval_conditional(const Expression& expression, Scope& scope) {
  if (truth(eval(*expression.parts[1], scope))) return eval(*expression.parts[0], scope);
  if (expression.parts[2]) return eval(*expression.parts[2], scope);
  return ws_.undefined("the inline if-expression on line {} evaluated to false and no else section was defined.", expression.line);
}

}  // namespace millrace::text::jinja
