#pragma once

// Token ids as words of a command line: "1,2,3".

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace millrace::cli {

/// Ids with commas or white space between. Errors: invalid_argument, with the word that is no id.
Result<std::vector<TokenId>> parse_token_list(std::string_view list);

std::string token_list(std::span<const TokenId> ids);

}  // namespace millrace::cli
