#pragma once

// The rows of field_table.h, by API. Only field_table.cpp asks.

#include <span>

#include "server/field_table.h"

namespace millrace::server {

std::span<const Field> openai_fields();     // chat, completions, embeddings, and what Millrace adds
std::span<const Field> responses_fields();  // /v1/responses
std::span<const Field> messages_fields();   // /v1/messages, count_tokens
std::span<const Field> text_fields();       // /tokenize, /detokenize, /apply-template

}  // namespace millrace::server
