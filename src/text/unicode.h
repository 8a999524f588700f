#pragma once

// What the Hugging Face tokenizers call blank and word characters. Properties only: no text, no tokens.

namespace millrace::text {

/// Unicode's White_Space.
bool is_white_space(char32_t c);

/// Letters, marks, decimal and letter numbers, connecting punctuation: what `\w` matches.
bool is_word_character(char32_t c);

}  // namespace millrace::text
