#include "text/jinja/access.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace millrace::text::jinja {

Interpreter::Flow Interpreter::run_block(const Block& block, Scope& scope, TextBuilder& out) {
  for (const Statement& statement : block) {
    try {
      const Flow flow = run_statement(statement, scope, out);
      if (flow != Flow::on) return flow;
    } catch (Raised& raised) {
      if (raised.line == 0) raised.line = statement.line;
      throw;
    }
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement, Scope& scope, TextBuilder& out) {
  using Kind = Statement::Kind;
  const Workspace::Nest nest(ws_);
  ws_.spend();
  switch (statement.kind) {
    case Kind::data: out.add(statement.text.text()); return Flow::on;
    case Kind::output: write_str(out, ws_, eval(*statement.expression, scope)); return Flow::on;
    case Kind::set: assign(*statement.target, eval(*statement.expression, scope), scope); return Flow::on;
    case Kind::set_block:
    case Kind::filter: return run_captured(statement, scope, out);
    case Kind::branch: return run_branch(statement, scope, out);
    case Kind::loop: return run_loop(statement, eval(*statement.expression, scope), 0, scope, out);
    case Kind::with: return run_with(statement, scope, out);
    case Kind::macro: scope.set(statement.macro->name, Value(&ws_.make<Macro>(0, *statement.macro, scope))); return Flow::on;
    case Kind::call: {
      const Value caller(&ws_.make<Macro>(0, *statement.macro, scope));
      add_text(eval_call(*statement.expression, scope, &caller), out);
      return Flow::on;
    }
    case Kind::scope: return run_block(statement.body, inner(scope), out);
    case Kind::block: return run_block(statement.body, inner(root_), out);
    case Kind::break_loop: return Flow::break_loop;
    case Kind::continue_loop: return Flow::continue_loop;
    case Kind::other_template: raise("'{}' needs another template, and a chat template has none", statement.name);
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_branch(const Statement& statement, Scope& scope, TextBuilder& out) {
  for (const auto& [test, body] : statement.branches)
    if (truth(eval(*test, scope))) return run_block(body, scope, out);
  return run_block(statement.otherwise, scope, out);
}

Interpreter::Flow Interpreter::run_with(const Statement& statement, Scope& scope, TextBuilder& out) {
  std::vector<Value> values;  // all of them are computed outside
  for (const auto& [target, expression] : statement.bindings) values.push_back(eval(*expression, scope));
  Scope& inside = inner(scope);
  for (std::size_t i = 0; i < values.size(); ++i) assign(*statement.bindings[i].first, values[i], inside);
  return run_block(statement.body, inside, out);
}

/// What call and filter blocks give has to be text already.
void Interpreter::add_text(const Value& value, TextBuilder& out) {
  if (!value.is_string()) raise("a block gives text, not {}", type_name(value));
  out.add(value.text());
}

/// Set and filter blocks: the body becomes a text first.
Interpreter::Flow Interpreter::run_captured(const Statement& statement, Scope& scope, TextBuilder& out) {
  TextBuilder captured(ws_);
  const Flow flow = run_block(statement.body, inner(scope), captured);
  if (flow != Flow::on) return flow;
  Value text = captured.value();
  if (statement.expression) text = eval_piped(*statement.expression, text, scope);
  if (statement.kind == Statement::Kind::filter) add_text(text, out);
  else assign(*statement.target, text, scope);
  return Flow::on;
}

Interpreter::Flow Interpreter::run_loop(const Statement& statement, const Value& over, std::int64_t depth0, Scope& scope, TextBuilder& out) {
  // The pull function owns what it needs: the loop object may outlive this call in a namespace.
  auto pull = [this, &statement, items = Items(ws_, over), test_scope = statement.filter ? &inner(scope) : nullptr](Value& item) mutable {
    while (items.next(item)) {
      if (test_scope == nullptr) return true;
      test_scope->variables.clear();
      assign(*statement.target, item, *test_scope);
      if (truth(eval(*statement.filter, *test_scope))) return true;
    }
    return false;
  };
  Loop& loop = ws_.make<Loop>(128, over, statement.filter == nullptr, std::move(pull), depth0);
  if (statement.recursive) loop.statement = &statement, loop.scope = &scope;
  Scope& body_scope = inner(scope);
  bool finished_one = false;  // what decides about else in Jinja2: a body that ran to its end
  for (Value item; loop.next(item);) {
    body_scope.variables.clear();
    body_scope.set("loop", Value(&loop));
    assign(*statement.target, item, body_scope);
    const Flow flow = run_block(statement.body, body_scope, out);
    if (flow == Flow::break_loop) break;
    if (flow == Flow::on) finished_one = true;
  }
  if (finished_one || statement.otherwise.empty()) return Flow::on;
  return run_block(statement.otherwise, inner(scope), out);
}

void Interpreter::assign(const Expression& target, const Value& value, Scope& scope) {
  ws_.spend();
  if (target.kind == Expression::Kind::name) return scope.set(target.name, value);
  if (target.kind == Expression::Kind::member) return assign_member(target, value, scope);
  const auto values = items_of(ws_, value);
  const std::size_t wanted = target.parts.size();
  if (values.size() > wanted) raise("too many values to unpack (expected {})", wanted);
  if (values.size() < wanted) raise("not enough values to unpack (expected {}, got {})", wanted, values.size());
  for (std::size_t i = 0; i < wanted; ++i) assign(*target.parts[i], values[i], scope);
}

void Interpreter::assign_member(const Expression& target, const Value& value, Scope& scope) {
  const Value* found = scope.find(target.name);
  if (found == nullptr || !found->is(Kind::name_space)) raise("cannot assign attribute on non-namespace object");
  put(ws_, *found->as<NameSpace>().members, target.value, value);
}

}  // namespace millrace::text::jinja
