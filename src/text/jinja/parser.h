#pragma once

// Tokens to tree, by recursive descent with Jinja2's grammar and precedences. Two files: parser.cpp has the
// statements, parser_expressions.cpp the expressions. Recursion is counted; a deeper template is refused.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/raise.h"

namespace millrace::text::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block parse_template();

 private:
  // Where we are.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(Token::Kind kind) const { return current().kind == kind; }
  bool skip_op(std::string_view op) { return current().is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return current().is_name(name) && (next(), true); }
  void expect_op(std::string_view op);
  void expect(Token::Kind kind, const char* what);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  [[noreturn]] void fail_unexpected(const char* wanted);

  // Statements.
  Block parse_until(std::initializer_list<const char*> ends);  // stops at the end tag's name
  Block parse_body(std::initializer_list<const char*> ends);   // from before the %} of the opening tag
  Block parse_closed_body(const char* end);                    // and over the end tag's name
  Statement parse_statement();
  Statement parse_set();
  Statement parse_for();
  Statement parse_if();
  Statement parse_with();
  Statement parse_macro();
  Statement parse_call();
  Statement parse_filter_block();
  Statement parse_block();
  Statement parse_autoescape();
  Statement parse_other_template();
  void parse_print(Block& into);
  void parse_signature(MacroDefinition& macro);
  void parse_macro_body(MacroDefinition& macro, const char* end);
  ExpressionPtr parse_target(bool with_members);
  ExpressionPtr parse_one_target(bool with_members);
  void note_only_name(const ExpressionPtr& target);

  // Expressions.
  ExpressionPtr parse_tuple(bool conditional = true, std::string_view stop = "", bool parentheses = false);
  ExpressionPtr parse_expression(bool conditional = true) { return conditional ? parse_conditional() : parse_or(); }
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr start);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr start);
  ExpressionPtr parse_filters(ExpressionPtr subject, bool first_given = false);
  ExpressionPtr parse_test(ExpressionPtr subject);
  ExpressionPtr parse_subscript(ExpressionPtr of);
  ExpressionPtr parse_one_subscript();
  ExpressionPtr parse_call_of(ExpressionPtr callee);
  std::unique_ptr<CallArguments> parse_arguments();
  std::string parse_dotted_name();
  bool at_tuple_end(std::string_view stop) const;

  ExpressionPtr node(Expression::Kind kind, int line) const;
  ExpressionPtr parent(Expression::Kind kind, int line, ExpressionPtr child) const;
  ExpressionPtr above(Expression::Kind kind, ExpressionPtr child) const;  // on the child's line
  void adopt(Expression& parent, ExpressionPtr child) const;
  void adopt_arguments(Expression& parent, std::unique_ptr<CallArguments> arguments) const;
  void measure(Expression& parent, const Expression* child) const;
  void note_unknown(int line, const char* what, const std::string& name);

  static constexpr int kMaxDepth = 100;   // of nesting, in the source
  static constexpr int kMaxHeight = 200;  // of an expression's tree: chains of filters and subscripts nest, too

  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (parser_.depth_ >= kMaxDepth) raise_syntax(parser_.current().line, "nested more than {} levels deep", kMaxDepth);
      ++parser_.depth_;
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  /// Sets a member for a while.
  template <class T>
  class With {
   public:
    With(T& member, T value) : member_(member), before_(std::exchange(member, value)) {}
    ~With() { member_ = before_; }
    With(const With&) = delete;
    With& operator=(const With&) = delete;

   private:
    T& member_;
    T before_;
  };

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool soft_ = false;     // in a branch: an unknown filter or test is an error only when it is reached
  std::vector<Raised> unknown_;  // filters and tests not in a branch as far as is known; errors at the end
  bool in_loop_ = false;  // break and continue are allowed
  std::vector<std::string> loads_;  // names read so far, to know what a macro uses
};

}  // namespace millrace::text::jinja
