#pragma once

// One pattern, two dialects: what Oniguruma (Ruby syntax, as Hugging Face uses it) means, written for PCRE2.

#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::text {

/// Errors: unsupported, for constructs that would silently mean something else.
Result<std::string> pcre_from_oniguruma(std::string_view pattern);

}  // namespace millrace::text
