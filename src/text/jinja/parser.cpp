#include "text/jinja/parser.h"

#include <algorithm>
#include <array>

#include "text/jinja/macro.h"

namespace millrace::text::jinja {
namespace {

Statement statement(Statement::Kind kind, int line) {
  Statement made{};
  made.kind = kind;
  made.line = line;
  return made;
}

std::string joined(std::initializer_list<const char*> names) {
  std::string out;
  for (const char* name : names) out += (out.empty() ? "'" : " or '") + std::string(name) + "'";
  return out;
}

}  // namespace

void Parser::fail_unexpected(const char* wanted) {
  raise_syntax(current().line, "expected {}, got {}", wanted, describe(current()));
}

void Parser::expect_op(std::string_view op) {
  if (!current().is_op(op)) fail_unexpected(fmt::format("'{}'", op).c_str());
  next();
}

void Parser::expect(Token::Kind kind, const char* what) {
  if (!is(kind)) fail_unexpected(what);
  next();
}

void Parser::expect_name(std::string_view name) {
  if (!current().is_name(name)) fail_unexpected(fmt::format("'{}'", name).c_str());
  next();
}

std::string Parser::expect_any_name() {
  if (!is(Token::Kind::name)) fail_unexpected("a name");
  return next().text;
}

Block Parser::parse_template() {
  Block root = parse_until({});
  if (!unknown_.empty()) throw unknown_.front();
  return root;
}

Block Parser::parse_until(std::initializer_list<const char*> ends) {
  const Deeper deeper(*this);
  Block body;
  while (true) {
    const Token& token = current();
    switch (token.kind) {
      case Token::Kind::data: {
        Statement data = statement(Statement::Kind::data, token.line);
        data.text = Value(std::make_shared<const Str>(Text(token.text, Origin::template_text), false, nullptr));
        body.push_back(std::move(data));
        next();
        break;
      }
      case Token::Kind::variable_begin: {
        next();
        Statement output = statement(Statement::Kind::output, token.line);
        output.expression = parse_tuple();
        expect(Token::Kind::variable_end, "end of print statement");
        body.push_back(std::move(output));
        break;
      }
      case Token::Kind::block_begin: {
        next();
        if (!is(Token::Kind::name)) fail_unexpected("a tag's name");
        if (std::ranges::any_of(ends, [&](const char* end) { return current().is_name(end); })) return body;
        if (current().text.starts_with("end") || current().is_name("else") || current().is_name("elif"))
          raise_syntax(token.line, "encountered '{}'{}", current().text, ends.size() == 0 ? "" : ", expected " + joined(ends));
        if (current().is_name("print")) parse_print(body);
        else body.push_back(parse_statement());
        expect(Token::Kind::block_end, "end of statement block");
        break;
      }
      default:
        if (ends.size() > 0) raise_syntax(token.line, "unexpected end of template, expected {}", joined(ends));
        return body;
    }
  }
}

Block Parser::parse_body(std::initializer_list<const char*> ends) {
  skip_op(":");
  expect(Token::Kind::block_end, "end of statement block");
  return parse_until(ends);
}

Block Parser::parse_closed_body(const char* end) {
  Block body = parse_body({end});
  next();
  return body;
}

Statement Parser::parse_statement() {
  const Token tag = current();
  const std::string& name = tag.text;
  if (name == "set") return parse_set();
  if (name == "for") return parse_for();
  if (name == "if") return parse_if();
  if (name == "with") return parse_with();
  if (name == "macro") return parse_macro();
  if (name == "call") return parse_call();
  if (name == "filter") return parse_filter_block();
  if (name == "block") return parse_block();
  if (name == "autoescape") return parse_autoescape();
  if (name == "include" || name == "import" || name == "from" || name == "extends") return parse_other_template();
  if (name == "generation") {  // marks what the model wrote; to a reader it is plain text
    const With soft(soft_, false), loop(in_loop_, false);
    next();
    Statement made = statement(Statement::Kind::scope, tag.line);
    made.body = parse_closed_body("endgeneration");
    return made;
  }
  if (name == "break" || name == "continue") {
    if (!in_loop_) raise_syntax(tag.line, "'{}' outside of a loop", name);
    next();
    return statement(name == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop, tag.line);
  }
  raise_syntax(tag.line, "encountered unknown tag '{}'", name);
}

void Parser::parse_print(Block& into) {
  next();
  for (bool first = true; !is(Token::Kind::block_end); first = false) {
    if (!first) expect_op(",");
    Statement output = statement(Statement::Kind::output, current().line);
    output.expression = parse_expression();
    into.push_back(std::move(output));
  }
}

Statement Parser::parse_set() {
  const int line = next().line;
  ExpressionPtr target = parse_target(true);
  if (skip_op("=")) {
    Statement made = statement(Statement::Kind::set, line);
    made.target = std::move(target);
    made.expression = parse_tuple();
    return made;
  }
  Statement made = statement(Statement::Kind::set_block, line);
  made.target = std::move(target);
  made.expression = parse_filters(nullptr);
  const With soft(soft_, false);
  made.body = parse_closed_body("endset");
  return made;
}

Statement Parser::parse_for() {
  Statement made = statement(Statement::Kind::loop, next().line);
  made.target = parse_target(false);
  note_only_name(made.target);
  expect_name("in");
  made.expression = parse_tuple(false, "recursive");
  {
    const With soft(soft_, false);
    if (skip_name("if")) made.filter = parse_expression();
    made.recursive = skip_name("recursive");
    const With loop(in_loop_, true);
    made.body = parse_body({"endfor", "else"});
  }
  const With soft(soft_, false);
  if (next().text == "else") made.otherwise = parse_closed_body("endfor");
  return made;
}

void Parser::note_only_name(const ExpressionPtr& target) {
  if (target->kind == Expression::Kind::name && target->name == "loop")
    raise_syntax(target->line, "can't assign to the special variable loop in a for statement");
  for (const ExpressionPtr& part : target->parts) note_only_name(part);
}

Statement Parser::parse_if() {
  const With soft(soft_, true);
  Statement made = statement(Statement::Kind::branch, current().line);
  while (true) {
    next();
    ExpressionPtr test = parse_tuple(false);
    Block body = parse_body({"elif", "else", "endif"});
    made.branches.emplace_back(std::move(test), std::move(body));
    if (current().is_name("elif")) continue;
    if (next().text == "else") made.otherwise = parse_closed_body("endif");
    return made;
  }
}

Statement Parser::parse_with() {
  const With soft(soft_, false);
  Statement made = statement(Statement::Kind::with, next().line);
  while (!is(Token::Kind::block_end)) {
    if (!made.bindings.empty()) expect_op(",");
    ExpressionPtr target = parse_target(false);
    expect_op("=");
    ExpressionPtr value = parse_expression();
    made.bindings.emplace_back(std::move(target), std::move(value));
  }
  made.body = parse_closed_body("endwith");
  return made;
}

void Parser::parse_signature(MacroDefinition& macro) {
  expect_op("(");
  while (!current().is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const int line = current().line;
    std::string name = expect_any_name();
    if (skip_op("=")) macro.defaults.push_back(parse_expression());
    else if (!macro.defaults.empty()) raise_syntax(line, "a parameter without a default follows one with a default");
    if (std::ranges::find(macro.parameters, name) != macro.parameters.end()) raise_syntax(line, "duplicate parameter '{}'", name);
    macro.parameters.push_back(std::move(name));
  }
  expect_op(")");
}

void Parser::parse_macro_body(MacroDefinition& macro, const char* end) {
  const With loop(in_loop_, false);
  const std::size_t before = loads_.size();
  const int line = current().line;
  macro.body = parse_closed_body(end);
  const auto reads = [&](const char* name) { return std::find(loads_.begin() + static_cast<std::ptrdiff_t>(before), loads_.end(), name) != loads_.end(); };
  const auto declares = [&](const char* name) { return std::ranges::find(macro.parameters, name) != macro.parameters.end(); };
  macro.uses_caller = reads("caller");
  macro.uses_kwargs = reads("kwargs") && !declares("kwargs");
  macro.uses_varargs = reads("varargs") && !declares("varargs");
  if (macro.uses_caller && declares("caller")) {
    const auto at = static_cast<std::size_t>(std::ranges::find(macro.parameters, "caller") - macro.parameters.begin());
    if (at + macro.defaults.size() < macro.parameters.size()) raise_syntax(line, "the special parameter 'caller' must have a default");
  }
}

Statement Parser::parse_macro() {
  const With soft(soft_, false);
  Statement made = statement(Statement::Kind::macro, next().line);
  made.macro = std::make_unique<MacroDefinition>();
  made.macro->name = expect_any_name();
  parse_signature(*made.macro);
  parse_macro_body(*made.macro, "endmacro");
  return made;
}

Statement Parser::parse_call() {
  Statement made = statement(Statement::Kind::call, next().line);
  made.macro = std::make_unique<MacroDefinition>();
  if (current().is_op("(")) parse_signature(*made.macro);
  made.expression = parse_expression();
  if (made.expression->kind != Expression::Kind::call) raise_syntax(made.line, "expected a call");
  const With soft(soft_, false);
  parse_macro_body(*made.macro, "endcall");
  return made;
}

Statement Parser::parse_filter_block() {
  const With soft(soft_, false);
  Statement made = statement(Statement::Kind::filter, next().line);
  made.expression = parse_filters(nullptr, true);
  made.body = parse_closed_body("endfilter");
  return made;
}

Statement Parser::parse_block() {
  const With soft(soft_, false), loop(in_loop_, false);
  Statement made = statement(Statement::Kind::block, next().line);
  made.name = expect_any_name();
  skip_name("scoped");
  skip_name("required");
  made.body = parse_closed_body("endblock");
  skip_name(made.name);
  return made;
}

Statement Parser::parse_autoescape() {
  Statement made = statement(Statement::Kind::scope, next().line);
  const ExpressionPtr on = parse_expression();
  const bool off = on->kind == Expression::Kind::literal && on->value.is(jinja::Kind::boolean) && !on->value.boolean();
  if (!off) raise_syntax(made.line, "only autoescape false is supported");
  const With soft(soft_, false);
  made.body = parse_closed_body("endautoescape");
  return made;
}

Statement Parser::parse_other_template() {
  Statement made = statement(Statement::Kind::other_template, current().line);
  made.name = next().text;
  made.expression = parse_expression();
  while (!is(Token::Kind::block_end) && !is(Token::Kind::eof)) next();  // as x, ignore missing, with context
  return made;
}

ExpressionPtr Parser::parse_target(bool with_members) {
  ExpressionPtr first = parse_one_target(with_members);
  if (!current().is_op(",")) return first;
  ExpressionPtr tuple = above(Expression::Kind::tuple, std::move(first));
  while (skip_op(",")) {
    if (!is(Token::Kind::name) && !current().is_op("(")) break;
    if (current().is_name("in")) break;
    adopt(*tuple, parse_one_target(with_members));
  }
  return tuple;
}

ExpressionPtr Parser::parse_one_target(bool with_members) {
  const Deeper deeper(*this);
  const int line = current().line;
  if (skip_op("(")) {
    ExpressionPtr inner = parse_target(with_members);
    expect_op(")");
    return inner;
  }
  if (!is(Token::Kind::name)) fail_unexpected("a name to assign to");
  ExpressionPtr target = node(Expression::Kind::name, line);
  target->name = next().text;
  constexpr std::array kConstants = {"true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(kConstants, target->name) != kConstants.end()) raise_syntax(line, "can't assign to '{}'", target->name);
  if (with_members && skip_op(".")) {
    target->kind = Expression::Kind::member;
    const std::string attribute = expect_any_name();
    target->value = Value(std::make_shared<const Str>(Text(attribute, Origin::template_text), false, nullptr));
  }
  return target;
}

Block parse(std::string_view source) { return Parser(tokenize(source)).parse_template(); }

}  // namespace millrace::text::jinja
