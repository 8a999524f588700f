#pragma once

// What is known of each token by itself: how it is spelled, what it is in running text, what it is for.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace millrace::text {

/// More than any vocabulary has; an id beyond it is a broken file, not a reason to take gigabytes.
inline constexpr std::uint32_t kMostTokens = 1 << 22;
/// Bytes of one spelling: merges are looked for at each of its characters.
inline constexpr std::size_t kLongestSpelling = 1024;

struct Vocabulary {
  struct Token {
    std::string spelling;
    std::string piece;  // its bytes in running text
    bool exists = false;
    bool special = false;
    bool ends_generation = false;
  };

  std::vector<Token> tokens;  // by id; ids that the file skips do not exist
  std::optional<TokenId> bos, eos;

  const Token* find(TokenId token) const {
    if (token < 0 || static_cast<std::size_t>(token) >= tokens.size()) return nullptr;
    const Token& found = tokens[static_cast<std::size_t>(token)];
    return found.exists ? &found : nullptr;
  }

  /// Control tokens that end a turn in every model family that has them, whatever else the file names.
  void mark_well_known_ends();
};

}  // namespace millrace::text
