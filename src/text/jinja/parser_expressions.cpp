#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/is_tests.h"
#include "text/jinja/parser.h"

namespace millrace::text::jinja {
namespace {

Value literal_text(std::string_view bytes) {
  return Value(std::make_shared<const Str>(Text(bytes, Origin::template_text), false, nullptr));
}

}  // namespace

ExpressionPtr Parser::node(Expression::Kind kind, int line) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  return made;
}

void Parser::measure(Expression& parent, const Expression* child) const {
  if (child == nullptr) return;
  parent.height = std::max(parent.height, child->height + 1);
  if (parent.height > kMaxHeight) raise_syntax(parent.line, "an expression nests more than {} levels deep", kMaxHeight);
}

void Parser::adopt(Expression& parent, ExpressionPtr child) const {
  measure(parent, child.get());
  parent.parts.push_back(std::move(child));
}

void Parser::adopt_arguments(Expression& parent, std::unique_ptr<CallArguments> arguments) const {
  for (const ExpressionPtr& argument : arguments->positional) measure(parent, argument.get());
  for (const auto& [name, argument] : arguments->named) measure(parent, argument.get());
  measure(parent, arguments->star.get());
  measure(parent, arguments->star_star.get());
  parent.arguments = std::move(arguments);
}

void Parser::note_unknown(int line, const char* what, const std::string& name) {
  if (!soft_) unknown_.push_back({Code::corrupt_data, fmt::format("no {} named '{}'", what, name), line});
}

ExpressionPtr Parser::parent(Expression::Kind kind, int line, ExpressionPtr child) const {
  ExpressionPtr made = node(kind, line);
  adopt(*made, std::move(child));
  return made;
}

ExpressionPtr Parser::above(Expression::Kind kind, ExpressionPtr child) const {
  const int line = child->line;
  return parent(kind, line, std::move(child));
}

bool Parser::at_tuple_end(std::string_view stop) const {
  return is(Token::Kind::variable_end) || is(Token::Kind::block_end) || current().is_op(")") || (!stop.empty() && current().is_name(stop));
}

ExpressionPtr Parser::parse_tuple(bool conditional, std::string_view stop, bool parentheses) {
  const int line = current().line;
  std::vector<ExpressionPtr> parts;
  bool tuple = false;
  while (true) {
    if (!parts.empty()) expect_op(",");
    if (at_tuple_end(stop)) break;
    parts.push_back(parse_expression(conditional));
    if (!current().is_op(",")) break;
    tuple = true;
  }
  if (!tuple && !parts.empty()) return std::move(parts[0]);
  if (!tuple && !parentheses) fail_unexpected("an expression");
  ExpressionPtr made = node(Expression::Kind::tuple, line);
  for (ExpressionPtr& part : parts) adopt(*made, std::move(part));
  return made;
}

ExpressionPtr Parser::parse_conditional() {
  const Deeper deeper(*this);
  const int line = current().line;
  const std::size_t known = unknown_.size();
  ExpressionPtr value = parse_or();
  if (!current().is_name("if")) return value;
  unknown_.resize(known, {});  // what was read turned out to be in a branch
  const With soft(soft_, true);
  while (skip_name("if")) {
    ExpressionPtr made = parent(Expression::Kind::conditional, line, std::move(value));
    adopt(*made, parse_or());
    adopt(*made, skip_name("else") ? parse_conditional() : nullptr);
    value = std::move(made);
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  if (!current().is_name("or")) return left;
  ExpressionPtr made = above(Expression::Kind::logical_or, std::move(left));
  while (skip_name("or")) adopt(*made, parse_and());
  return made;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  if (!current().is_name("and")) return left;
  ExpressionPtr made = above(Expression::Kind::logical_and, std::move(left));
  while (skip_name("and")) adopt(*made, parse_not());
  return made;
}

ExpressionPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_comparison();
  const Deeper deeper(*this);
  const int line = next().line;
  return parent(Expression::Kind::logical_not, line, parse_not());
}

ExpressionPtr Parser::parse_comparison() {
  struct Symbol { const char* text; Comparison comparison; };
  constexpr Symbol kSymbols[] = {{"==", Comparison::eq}, {"!=", Comparison::ne}, {"<", Comparison::lt},
                                 {"<=", Comparison::le}, {">", Comparison::gt},  {">=", Comparison::ge}};
  ExpressionPtr left = parse_sum();
  ExpressionPtr made;
  const auto chain = [&](Comparison comparison) {
    if (!made) made = above(Expression::Kind::comparison, std::move(left));
    made->comparisons.push_back(comparison);
    adopt(*made, parse_sum());
  };
  while (true) {
    const auto found = std::ranges::find_if(kSymbols, [&](const Symbol& s) { return current().is_op(s.text); });
    if (found != std::end(kSymbols)) next(), chain(found->comparison);
    else if (skip_name("in")) chain(Comparison::in);
    else if (current().is_name("not") && look().is_name("in")) next(), next(), chain(Comparison::not_in);
    else break;
  }
  return made ? std::move(made) : std::move(left);
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr left = parse_concat();
  ExpressionPtr made;
  while (current().is_op("+") || current().is_op("-")) {
    if (!made) made = above(Expression::Kind::arithmetic, std::move(left));
    made->ops.push_back(next().text == "+" ? Op::add : Op::subtract);
    adopt(*made, parse_concat());
  }
  return made ? std::move(made) : std::move(left);
}

ExpressionPtr Parser::parse_concat() {
  ExpressionPtr left = parse_product();
  if (!current().is_op("~")) return left;
  ExpressionPtr made = above(Expression::Kind::concat, std::move(left));
  while (skip_op("~")) adopt(*made, parse_product());
  return made;
}

ExpressionPtr Parser::parse_product() {
  struct Symbol { const char* text; Op op; };
  constexpr Symbol kSymbols[] = {{"*", Op::multiply}, {"/", Op::divide}, {"//", Op::floor_divide}, {"%", Op::modulo}};
  ExpressionPtr left = parse_power();
  ExpressionPtr made;
  while (true) {
    const auto found = std::ranges::find_if(kSymbols, [&](const Symbol& s) { return current().is_op(s.text); });
    if (found == std::end(kSymbols)) break;
    next();
    if (!made) made = above(Expression::Kind::arithmetic, std::move(left));
    made->ops.push_back(found->op);
    adopt(*made, parse_power());
  }
  return made ? std::move(made) : std::move(left);
}

ExpressionPtr Parser::parse_power() {  // from left to right, unlike Python's
  ExpressionPtr left = parse_unary();
  if (!current().is_op("**")) return left;
  ExpressionPtr made = above(Expression::Kind::arithmetic, std::move(left));
  while (skip_op("**")) {
    made->ops.push_back(Op::power);
    adopt(*made, parse_unary());
  }
  return made;
}

ExpressionPtr Parser::parse_unary(bool with_filters) {
  ExpressionPtr made;
  if (current().is_op("-") || current().is_op("+")) {
    const Deeper deeper(*this);
    const Token& sign = next();
    made = parent(sign.text == "-" ? Expression::Kind::negative : Expression::Kind::positive, sign.line, parse_unary(false));
  } else {
    made = parse_primary();
  }
  made = parse_postfix(std::move(made));
  return with_filters ? parse_filters_and_tests(std::move(made)) : std::move(made);
}

ExpressionPtr Parser::parse_primary() {
  const Token& token = current();
  if (token.is_op("(")) {
    next();
    ExpressionPtr inner = parse_tuple(true, "", true);
    expect_op(")");
    return inner;
  }
  if (token.is_op("[")) return parse_list();
  if (token.is_op("{")) return parse_dict();
  ExpressionPtr made = node(Expression::Kind::literal, token.line);
  switch (token.kind) {
    case Token::Kind::name:
      next();
      if (token.text == "true" || token.text == "True") made->value = Value(true);
      else if (token.text == "false" || token.text == "False") made->value = Value(false);
      else if (token.text != "none" && token.text != "None") {
        made->kind = Expression::Kind::name;
        made->name = token.text;
        loads_.push_back(token.text);
      }
      return made;
    case Token::Kind::string: {
      std::string text;
      while (is(Token::Kind::string)) text += next().text;
      made->value = literal_text(text);
      return made;
    }
    case Token::Kind::integer: made->value = Value(next().integer); return made;
    case Token::Kind::real: made->value = Value(next().real); return made;
    default: fail_unexpected("an expression");
  }
}

ExpressionPtr Parser::parse_list() {
  ExpressionPtr made = node(Expression::Kind::list, next().line);
  while (!current().is_op("]")) {
    if (!made->parts.empty()) expect_op(",");
    if (current().is_op("]")) break;
    adopt(*made, parse_expression());
  }
  expect_op("]");
  return made;
}

ExpressionPtr Parser::parse_dict() {
  ExpressionPtr made = node(Expression::Kind::dict, next().line);
  while (!current().is_op("}")) {
    if (!made->parts.empty()) expect_op(",");
    if (current().is_op("}")) break;
    adopt(*made, parse_expression());
    expect_op(":");
    adopt(*made, parse_expression());
  }
  expect_op("}");
  return made;
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr start) {
  while (true) {
    if (current().is_op(".") || current().is_op("[")) start = parse_subscript(std::move(start));
    else if (current().is_op("(")) start = parse_call_of(std::move(start));
    else return start;
  }
}

ExpressionPtr Parser::parse_filters_and_tests(ExpressionPtr start) {
  while (true) {
    if (current().is_op("|")) start = parse_filters(std::move(start));
    else if (current().is_name("is")) start = parse_test(std::move(start));
    else if (current().is_op("(")) start = parse_call_of(std::move(start));
    else return start;
  }
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_any_name();
  while (skip_op(".")) name += "." + expect_any_name();
  return name;
}

ExpressionPtr Parser::parse_filters(ExpressionPtr subject, bool first_given) {
  while (first_given || current().is_op("|")) {
    if (!first_given) next();
    first_given = false;
    const int line = current().line;
    ExpressionPtr made = parent(Expression::Kind::filter, line, std::move(subject));
    made->name = parse_dotted_name();
    made->entry = find_filter(made->name);
    if (made->entry == nullptr) note_unknown(line, "filter", made->name);
    if (current().is_op("(")) adopt_arguments(*made, parse_arguments());
    subject = std::move(made);
  }
  return subject;
}

ExpressionPtr Parser::parse_test(ExpressionPtr subject) {
  const int line = next().line;
  const bool negated = skip_name("not");
  ExpressionPtr made = parent(Expression::Kind::test, line, std::move(subject));
  made->name = parse_dotted_name();
  made->entry = find_test(made->name);
  if (made->entry == nullptr) note_unknown(line, "test", made->name);
  const bool starts_argument = is(Token::Kind::name) || is(Token::Kind::string) || is(Token::Kind::integer) || is(Token::Kind::real) ||
                               current().is_op("[") || current().is_op("{");
  const bool goes_on = current().is_name("else") || current().is_name("or") || current().is_name("and");
  if (current().is_op("(")) {
    adopt_arguments(*made, parse_arguments());
  } else if (starts_argument && !goes_on) {
    if (current().is_name("is")) raise_syntax(line, "tests cannot be chained with 'is'");
    auto arguments = std::make_unique<CallArguments>();
    arguments->positional.push_back(parse_postfix(parse_primary()));
    adopt_arguments(*made, std::move(arguments));
  }
  return negated ? parent(Expression::Kind::logical_not, line, std::move(made)) : std::move(made);
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr of) {
  const Token& opening = next();
  if (opening.is_op(".")) {
    if (is(Token::Kind::name)) {
      ExpressionPtr made = parent(Expression::Kind::attribute, opening.line, std::move(of));
      made->name = next().text;
      return made;
    }
    if (!is(Token::Kind::integer)) fail_unexpected("a name or a number");
    ExpressionPtr made = parent(Expression::Kind::item, opening.line, std::move(of));
    ExpressionPtr index = node(Expression::Kind::literal, current().line);
    index->value = Value(next().integer);
    adopt(*made, std::move(index));
    return made;
  }
  std::vector<ExpressionPtr> keys;
  while (!current().is_op("]")) {
    if (!keys.empty()) expect_op(",");
    keys.push_back(parse_one_subscript());
  }
  expect_op("]");
  if (keys.size() == 1 && keys[0]->kind == Expression::Kind::slice && keys[0]->parts[0] == nullptr) {
    ExpressionPtr made = std::move(keys[0]);
    measure(*made, of.get());
    made->parts[0] = std::move(of);
    return made;
  }
  ExpressionPtr made = parent(Expression::Kind::item, opening.line, std::move(of));
  if (keys.size() == 1) {
    adopt(*made, std::move(keys[0]));
    return made;
  }
  ExpressionPtr tuple = node(Expression::Kind::tuple, opening.line);
  for (ExpressionPtr& key : keys) {
    if (key->kind == Expression::Kind::slice && key->parts[0] == nullptr) raise_syntax(opening.line, "a slice among several subscripts is not supported");
    adopt(*tuple, std::move(key));
  }
  adopt(*made, std::move(tuple));
  return made;
}

/// An index, or a slice whose parts[0] is still missing.
ExpressionPtr Parser::parse_one_subscript() {
  const int line = current().line;
  ExpressionPtr first = current().is_op(":") ? nullptr : parse_expression();
  if (first && !current().is_op(":")) return first;
  ExpressionPtr made = node(Expression::Kind::slice, line);
  made->parts.push_back(nullptr);
  adopt(*made, std::move(first));
  const auto bound = [&]() -> ExpressionPtr {
    if (!skip_op(":") || current().is_op(":") || current().is_op("]") || current().is_op(",")) return nullptr;
    return parse_expression();
  };
  adopt(*made, bound());
  adopt(*made, bound());
  return made;
}

ExpressionPtr Parser::parse_call_of(ExpressionPtr callee) {
  ExpressionPtr made = parent(Expression::Kind::call, current().line, std::move(callee));
  adopt_arguments(*made, parse_arguments());
  return made;
}

std::unique_ptr<CallArguments> Parser::parse_arguments() {
  const int line = current().line;
  auto arguments = std::make_unique<CallArguments>();
  const auto ensure = [&](bool right) {
    if (!right) raise_syntax(line, "invalid order of arguments in a call");
  };
  expect_op("(");
  for (bool first = true; !current().is_op(")"); first = false) {
    if (!first) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    if (current().is_op("*")) {
      ensure(!arguments->star && !arguments->star_star);
      next();
      arguments->star = parse_expression();
    } else if (current().is_op("**")) {
      ensure(!arguments->star_star);
      next();
      arguments->star_star = parse_expression();
    } else if (is(Token::Kind::name) && look().is_op("=")) {
      ensure(!arguments->star_star);
      const Value name = literal_text(next().text);
      next();
      for (const auto& [other, value] : arguments->named)
        if (other.bytes() == name.bytes()) raise_syntax(line, "keyword argument repeated: {}", name.bytes());
      arguments->named.emplace_back(name, parse_expression());
    } else {
      ensure(!arguments->star && !arguments->star_star && arguments->named.empty());
      arguments->positional.push_back(parse_expression());
    }
  }
  expect_op(")");
  return arguments;
}

}  // namespace millrace::text::jinja
