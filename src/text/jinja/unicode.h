#pragma once

// What Python's str knows about characters and ours has to as well: counting, cutting, white space, letter case.
// All arguments are valid UTF-8.

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::text::jinja {

/// Characters (code points) in `bytes`.
std::size_t count_chars(std::string_view bytes);

/// Byte offset of character `index`; bytes.size() when there are fewer.
std::size_t byte_of_char(std::string_view bytes, std::size_t index);

/// The character at byte `offset`, and the offset behind it.
struct Char { char32_t code; std::size_t end; };
Char char_at(std::string_view bytes, std::size_t offset);

/// Offset of the character that ends at byte `end` > 0.
std::size_t char_before(std::string_view bytes, std::size_t end);

/// Like string_view::find, but linear in the worst case too: both strings may be chosen to be slow.
std::size_t find_bytes(std::string_view in, std::string_view part, std::size_t from = 0);

bool is_space(char32_t c);       // str.isspace, \s of a Python pattern
bool is_line_break(char32_t c);  // what str.splitlines cuts at
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);   // repr() leaves it as it is
bool is_word(char32_t c);        // \w of a Python pattern

/// Full mappings of one character; the result may have up to three.
std::string upper_of(char32_t c);
std::string lower_of(char32_t c);
std::string title_of(char32_t c);
std::string fold_of(char32_t c);

}  // namespace millrace::text::jinja
