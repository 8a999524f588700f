#include "cli/token_list.h"

#include <charconv>

namespace millrace::cli {

Result<std::vector<TokenId>> parse_token_list(std::string_view list) {
  constexpr std::string_view kBetween = ", \t\r\n";
  std::vector<TokenId> ids;
  for (std::size_t at = list.find_first_not_of(kBetween); at != list.npos; at = list.find_first_not_of(kBetween, at)) {
    const std::size_t end = std::min(list.find_first_of(kBetween, at), list.size());
    const std::string_view word = list.substr(at, end - at);
    TokenId id = -1;
    const auto [stop, failure] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (failure != std::errc{} || stop != word.data() + word.size() || id < 0)
      return error(Code::invalid_argument, "'{}' is no token id: expected whole numbers with commas between", word.substr(0, 40));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

std::string token_list(std::span<const TokenId> ids) {
  std::string out;
  for (const TokenId id : ids) {
    if (!out.empty()) out += ',';
    out += std::to_string(id);
  }
  return out;
}

}  // namespace millrace::cli
