#pragma once

// Runs a tree: statements write text, expressions give values. statements.cpp, expressions.cpp and calls.cpp hold the
// three kinds of work. One rendering, one thread; the tree is only read.

#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"

namespace millrace::text::jinja {

class Interpreter {
 public:
  Interpreter(Workspace& ws, Scope& root) : ws_(ws), root_(root) {}

  /// Raises with the line of the statement that failed.
  void run(const Block& tree, TextBuilder& out) { run_block(tree, root_, out); }

 private:
  enum class Flow : unsigned char { on, break_loop, continue_loop };

  Flow run_block(const Block& block, Scope& scope, TextBuilder& out);
  Flow run_statement(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_branch(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_with(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_captured(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_loop(const Statement& statement, const Value& over, std::int64_t depth0, Scope& scope, TextBuilder& out);
  void add_text(const Value& value, TextBuilder& out);
  Scope& inner(Scope& scope) { return ws_.make<Scope>(0, &scope); }

  void assign(const Expression& target, const Value& value, Scope& scope);
  void assign_member(const Expression& target, const Value& value, Scope& scope);

  Value eval(const Expression& expression, Scope& scope);
  Value eval_name(const Expression& expression, Scope& scope);
  Value eval_sequence(const Expression& expression, Scope& scope);
  Value eval_dict(const Expression& expression, Scope& scope);
  Value eval_filter(const Expression& expression, Scope& scope);
  Value eval_arithmetic(const Expression& expression, Scope& scope);
  Value eval_concat(const Expression& expression, Scope& scope);
  Value eval_comparison(const Expression& expression, Scope& scope);
  Value eval_logical(const Expression& expression, Scope& scope);
  Value eval_conditional(const Expression& expression, Scope& scope);
  Value eval_call(const Expression& expression, Scope& scope, const Value* caller);
  Value eval_piped(const Expression& filters, const Value& text, Scope& scope);

  Args arguments(const CallArguments* given, Scope& scope);
  Value call(const Value& callee, Args& args);
  Value call_macro(const Macro& macro, Args& args);

  Workspace& ws_;
  Scope& root_;
  const Value* piped_ = nullptr;  // what the first filter of a set or filter block works on
};

}  // namespace millrace::text::jinja
