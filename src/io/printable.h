#pragma once

// Which bytes of a file may appear in a message, and in which form. A model file is written by strangers: its names
// end up in terminals, logs and JSON.

#include <string>
#include <string_view>

namespace millrace::io {

/// `text` fit for a message: valid UTF-8, control characters as '?', cut after 64 bytes with "...".
std::string printable(std::string_view text);

/// True for what a tensor or key may be called: 1 to 256 bytes of UTF-8 without control characters. Such a name can
/// be printed as it is.
bool is_plain_name(std::string_view name);

}  // namespace millrace::io
