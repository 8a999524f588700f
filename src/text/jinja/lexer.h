#pragma once

// Template source to tokens: data, and the tokens inside {{ }} and {% %}. White space control happens here: the
// signs - and +, trim_blocks (the newline after a block goes) and lstrip_blocks (blanks before a block go), both on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::text::jinja {

struct Token {
  enum class Kind : unsigned char { data, variable_begin, variable_end, block_begin, block_end, name, string, integer, real, op, eof };
  Kind kind;
  int line;
  std::string text;            // data, name, op as written; a string's value
  std::int64_t integer = 0;
  double real = 0;

  bool is_op(std::string_view op) const { return kind == Kind::op && text == op; }
  bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
};

/// "name 'x'", "end of print statement", ...: for messages.
std::string describe(const Token& token);

/// Ends with an eof token. Raises corrupt_data.
std::vector<Token> tokenize(std::string_view source);

}  // namespace millrace::text::jinja
