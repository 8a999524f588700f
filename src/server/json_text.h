#pragma once

// JSON as it is written: pieces are appended to a string, because an answer is sent token by token and a tree for each would cost more
// than the token. Knows no message's shape.

#include <string>
#include <string_view>

namespace millrace::server {

/// In quotes and escaped. Broken UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

/// The shortest text that reads back as the same float; JSON has no infinity and no NaN: null.
void append_json_number(std::string& out, float value);

/// A log-probability: -9999 stands for "never", as in OpenAI's API; NaN is null.
void append_logprob(std::string& out, float logprob);

/// [226,130] : the bytes of `text`.
void append_json_bytes(std::string& out, std::string_view text);

}  // namespace millrace::server
