// tokenize and detokenize: text to ids and back, one call or line by line.

#include <nlohmann/json.hpp>

#include <charconv>

#include "cli/commands.h"
#include "cli/line_reader.h"
#include "cli/model_bundle.h"
#include "cli/output.h"
#include "cli/token_list.h"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<TokenId> encode(const text::Tokenizer& tokenizer, const std::string& text, const Options& options) {
  auto ids = tokenizer.encode(text, options.special ? text::Specials::as_control : text::Specials::as_text);
  return options.add_special ? tokenizer.add_special(std::move(ids)) : ids;
}

Result<std::string> decode(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids, const Options& options) {
  for (const TokenId id : ids)
    if (!tokenizer.spelling(id))
      return error(Code::invalid_argument, "id {} is not in the vocabulary of {} tokens", id, tokenizer.vocab_size());
  return tokenizer.decode(ids, options.special);
}

/// Applies `turn` to the JSON object of each line of standard input and prints what it returns.
template <class Turn>
Result<int> for_each_line(Turn turn) {
  LineReader lines;
  for (int number = 1;; ++number) {
    MILLRACE_TRY(line, lines.next());
    if (line.kind != Line::Kind::text) return 0;
    if (line.text.empty()) continue;
    auto object = Json::parse(line.text, nullptr, /*allow_exceptions=*/false);
    auto answer = object.is_object() ? turn(object) : Result<Json>(error(Code::invalid_argument, "expected a JSON object"));
    if (!answer) return std::move(answer).error().in(fmt::format("line {} of standard input", number));
    MILLRACE_TRY_VOID(write_json(*answer));
  }
}

Result<std::vector<TokenId>> ids_of(const Json& object) {
  const auto found = object.find("ids");
  if (found == object.end() || !found->is_array()) return error(Code::invalid_argument, "expected {{\"ids\": [...]}}");
  std::vector<TokenId> ids;
  for (const Json& one : *found) {
    const bool fits = one.is_number_integer() && one.get<double>() >= 0 && one.get<double>() <= 0x7FFFFFFF;
    if (!fits) return error(Code::invalid_argument, "ids[{}]: expected a token id, got {}", ids.size(), one.is_number() ? one.dump() : one.type_name());
    ids.push_back(one.get<TokenId>());
  }
  return ids;
}

}  // namespace

Result<int> run_tokenize(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  const text::Tokenizer& tokenizer = *bundle.tokenizer;
  if (options.jsonl)
    return for_each_line([&](const Json& object) -> Result<Json> {
      const auto text = object.find("text");
      if (text == object.end() || !text->is_string()) return error(Code::invalid_argument, "expected {{\"text\": \"...\"}}");
      return Json{{"ids", encode(tokenizer, text->get<std::string>(), options)}};
    });
  std::string text = options.text.value_or("");
  if (!options.text) {
    MILLRACE_TRY(input, read_stdin());
    text = std::move(input);
  }
  MILLRACE_TRY_VOID(write_out(token_list(encode(tokenizer, text, options)) + "\n"));
  return 0;
}

Result<int> run_detokenize(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  const text::Tokenizer& tokenizer = *bundle.tokenizer;
  if (options.jsonl)
    return for_each_line([&](const Json& object) -> Result<Json> {
      MILLRACE_TRY(ids, ids_of(object));
      MILLRACE_TRY(text, decode(tokenizer, ids, options));
      return Json{{"text", text}};
    });
  std::string list = options.text.value_or("");
  if (!options.text) {
    MILLRACE_TRY(input, read_stdin());
    list = std::move(input);
  }
  MILLRACE_TRY(ids, parse_token_list(list));
  MILLRACE_TRY(text, decode(tokenizer, ids, options));
  MILLRACE_TRY_VOID(write_out(text + "\n"));
  return 0;
}

}  // namespace millrace::cli
