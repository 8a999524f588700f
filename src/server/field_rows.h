#pragma once

// The rows of field_table.h, by API, and what they have in common. Only the table and its schema ask.

#include <span>
#include <string_view>
#include <vector>

#include "server/field_table.h"

namespace millrace::server {

std::span<const Field> openai_fields();     // chat, completions, embeddings, and what Millrace adds
std::span<const Field> responses_fields();  // /v1/responses
std::span<const Field> messages_fields();   // /v1/messages, count_tokens
std::span<const Field> text_fields();       // /tokenize, /detokenize, /apply-template

inline constexpr double kMostInt = 2147483647;
inline constexpr double kAnyLength = 1e9;  // bytes or elements: a body ends before

/// Of Field::values.
std::vector<std::string_view> words_of(const char* values);

}  // namespace millrace::server
