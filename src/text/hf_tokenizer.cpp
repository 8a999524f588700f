// A tokenizer from the files of a Hugging Face folder: tokenizer.json is the tokenizer; tokenizer_config.json and
// generation_config.json only name its special tokens. Truncation and padding are the caller's business, not ours.

#include <algorithm>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/hf_json.h"
#include "text/hf_steps.h"
#include "text/pipeline_tokenizer.h"

namespace millrace::text {
namespace {

using Json = nlohmann::json;

Result<Json> parse_json(const std::string& text, const char* name) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    return error(Code::corrupt_data, "{}: {}", name, repair_utf8(e.what()));
  }
}

/// The vocabulary as it fills: ids by spelling, tokens by id.
struct Spellings {
  TokenTable ids;
  Vocabulary vocabulary;

  Vocabulary::Token& put(const std::string& spelling, TokenId id) {
    if (vocabulary.tokens.size() <= static_cast<std::size_t>(id))
      vocabulary.tokens.resize(static_cast<std::size_t>(id) + 1);
    ids.add(spelling, id);
    Vocabulary::Token& token = vocabulary.tokens[static_cast<std::size_t>(id)];
    token.spelling = spelling;
    token.exists = true;
    return token;
  }
  bool is_special(TokenId id) const { return vocabulary.tokens[static_cast<std::size_t>(id)].special; }
};

Result<void> read_vocab(const JsonAt& at, Spellings& spellings) {
  if (!at.value->is_object()) return at.expected("an object");
  for (const auto& [spelling, value] : at.value->items()) {
    const auto* id = value.get_ptr<const std::uint64_t*>();
    const bool fits = spelling.size() <= kLongestSpelling && id && *id < kMostTokens;
    if (!fits)  // the path is written only now: there are 100,000 of them
      return JsonAt{&value, fmt::format("{}[{}]", at.path, spelling)}.expected(
          fmt::format("a token of at most {} bytes and an id from 0 to {}", kLongestSpelling, kMostTokens - 1));
    spellings.put(spelling, static_cast<TokenId>(*id));
  }
  return {};
}

struct Added {
  AddedTokens::Entry entry;
  bool normalized;
  bool in_model;  // the model's vocabulary has it too
};

Result<std::vector<Added>> read_added_tokens(const JsonAt& at, Spellings& spellings) {
  std::vector<Added> out;
  if (at.is_null()) return out;
  MILLRACE_TRY(n, at.array_size());
  for (std::size_t i = 0; i < n; ++i) {
    const JsonAt item = at.item(i);
    MILLRACE_TRY(content, item["content"].string());
    if (content.empty() || content.size() > kLongestSpelling)
      return item["content"].expected(fmt::format("1 to {} bytes", kLongestSpelling));
    MILLRACE_TRY(stated_id, item["id"].integer(0, kMostTokens - 1));
    MILLRACE_TRY(special, item["special"].boolean_or(false));
    MILLRACE_TRY(lstrip, item["lstrip"].boolean_or(false));
    MILLRACE_TRY(rstrip, item["rstrip"].boolean_or(false));
    MILLRACE_TRY(single_word, item["single_word"].boolean_or(false));
    MILLRACE_TRY(normalized, item["normalized"].boolean_or(!special));
    const auto model_id = spellings.ids.find(content);
    const TokenId id = model_id.value_or(static_cast<TokenId>(stated_id));
    Vocabulary::Token& token = spellings.put(content, id);
    token.special |= special;
    out.push_back({{content, id, special, lstrip, rstrip, single_word}, normalized, model_id.has_value()});
  }
  return out;
}

/// A merge as "a b" or as ["a", "b"]; nothing when it is neither.
std::optional<std::pair<std::string_view, std::string_view>> read_merge(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return std::pair<std::string_view, std::string_view>(merge[0].get_ref<const std::string&>(),
                                                         merge[1].get_ref<const std::string&>());
  if (!merge.is_string()) return std::nullopt;
  const std::string_view both = merge.get_ref<const std::string&>();
  const std::size_t blank = both.find(' ');
  if (blank == both.npos || both.find(' ', blank + 1) != both.npos) return std::nullopt;
  return std::pair(both.substr(0, blank), both.substr(blank + 1));
}

Result<void> add_merges(const JsonAt& at, const Spellings& spellings, Bpe& bpe) {
  MILLRACE_TRY(n, at.array_size());
  std::string merged;
  for (std::size_t i = 0; i < n; ++i) {
    const auto pair = read_merge((*at.value)[i]);
    if (!pair) return at.item(i).expected("two tokens, as 'a b' or as a pair");
    merged.assign(pair->first).append(pair->second);
    const auto left = spellings.ids.find(pair->first), right = spellings.ids.find(pair->second),
               both = spellings.ids.find(merged);
    if (!left || !right || !both) return at.item(i).expected("tokens of the vocabulary");
    // Text must not become a control token by merging.
    const bool forges = spellings.is_special(*left) || spellings.is_special(*right) || spellings.is_special(*both);
    if (!forges) bpe.add_merge(*left, *right, *both);
  }
  return {};
}

Result<void> check_model(const JsonAt& at) {
  if (!at.value->is_object()) return at.expected("an object");
  const JsonAt type = at["type"];
  if (type.is_null() ? at["merges"].is_null() : *type.value != "BPE") return type.unsupported();
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!at[key].is_null() && *at[key].value != "") return at[key].unsupported();
  if (!at["dropout"].is_null() && *at["dropout"].value != 0) return at["dropout"].unsupported();
  return {};
}

Result<void> fill_bpe(const JsonAt& model, const Spellings& spellings, bool byte_level, Bpe& bpe) {
  MILLRACE_TRY(byte_fallback, model["byte_fallback"].boolean_or(false));
  for (std::size_t i = 0; i < spellings.vocabulary.tokens.size(); ++i) {
    const Vocabulary::Token& token = spellings.vocabulary.tokens[i];
    const auto id = static_cast<TokenId>(i);
    if (!token.exists || token.special) continue;
    if (byte_fallback)
      if (const auto byte = byte_from_hex_token(token.spelling)) bpe.set_byte_token(*byte, id);
    const auto text = byte_level ? bytes_from_alphabet(token.spelling) : std::optional(token.spelling);
    if (text) bpe.add_token(*text, id);
  }
  if (!model["unk_token"].is_null()) {
    MILLRACE_TRY(unknown, model["unk_token"].string());
    const auto id = spellings.ids.find(unknown);
    if (!id) return model["unk_token"].expected("a token of the vocabulary");
    bpe.set_unknown(*id);
  }
  return add_merges(model["merges"], spellings, bpe);
}

void fill_pieces(const HfDecoder& decoder, const std::vector<Added>& added, Vocabulary& vocabulary) {
  std::vector<bool> is_literal(vocabulary.tokens.size());
  for (const Added& a : added) is_literal[static_cast<std::size_t>(a.entry.token)] = !a.in_model;
  Normalizer replacements;
  for (const auto& [what, with] : decoder.replacements) replacements.add(Normalizer::Replace{what, with});
  Regex::Scratch scratch;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    Vocabulary::Token& token = vocabulary.tokens[i];
    token.piece = token.spelling;
    if (token.special) continue;
    const auto byte = decoder.byte_tokens ? byte_from_hex_token(token.spelling) : std::nullopt;
    // What the model lacks is spelled as it stands in text; read as bytes, an added "é" would become half a character.
    auto bytes = decoder.byte_level && !is_literal[i] ? bytes_from_alphabet(token.spelling) : std::nullopt;
    if (byte) token.piece = std::string(1, static_cast<char>(*byte));
    else if (bytes) token.piece = *std::move(bytes);
    else if (!decoder.replacements.empty()) token.piece = replacements.apply(token.spelling, scratch);
  }
}

/// "x" or {"content": "x"} of tokenizer_config.json; nothing when null, or when the vocabulary has no such token.
Result<std::optional<TokenId>> read_named_token(const JsonAt& at, const Spellings& spellings) {
  if (at.is_null()) return std::optional<TokenId>();
  MILLRACE_TRY(name, (at.value->is_object() ? at["content"] : at).string());
  return spellings.ids.find(name);
}

Result<void> read_tokenizer_config(const JsonAt& at, const Spellings& spellings, PipelineTokenizer::Parts& parts) {
  MILLRACE_TRY(bos, read_named_token(at["bos_token"], spellings));
  MILLRACE_TRY(eos, read_named_token(at["eos_token"], spellings));
  Vocabulary& vocabulary = parts.vocabulary;
  vocabulary.bos = bos;
  vocabulary.eos = eos;
  if (eos) vocabulary.tokens[static_cast<std::size_t>(*eos)].ends_generation = true;

  // These classes put BOS and EOS themselves, whatever the file's post_processor says.
  constexpr std::string_view kClasses[] = {"LlamaTokenizer",         "LlamaTokenizerFast", "CodeLlamaTokenizer",
                                           "CodeLlamaTokenizerFast", "GemmaTokenizer",     "GemmaTokenizerFast"};
  const Json& name = *at["tokenizer_class"].value;
  const bool puts =
      name.is_string() && std::ranges::find(kClasses, name.get_ref<const std::string&>()) != std::end(kClasses);
  if (!puts || !at["add_bos_token"].value->is_boolean()) return {};
  MILLRACE_TRY(adds_bos, at["add_bos_token"].boolean_or(false));
  MILLRACE_TRY(adds_eos, at["add_eos_token"].boolean_or(false));
  parts.prefix = adds_bos && bos ? std::vector{*bos} : std::vector<TokenId>();
  parts.suffix = adds_eos && eos ? std::vector{*eos} : std::vector<TokenId>();
  return {};
}

/// Ids that the vocabulary does not have are padding of the model's; they end nothing.
Result<void> read_generation_config(const JsonAt& at, Vocabulary& vocabulary) {
  const auto read = [&](const JsonAt& id_at, bool ends) -> Result<std::optional<TokenId>> {
    MILLRACE_TRY(id, id_at.integer(0, kMostTokens - 1));
    if (!vocabulary.find(static_cast<TokenId>(id))) return std::optional<TokenId>();
    if (ends) vocabulary.tokens[static_cast<std::size_t>(id)].ends_generation = true;
    return std::optional(static_cast<TokenId>(id));
  };
  const JsonAt ends = at["eos_token_id"], begin = at["bos_token_id"];
  if (ends.value->is_array()) {
    for (std::size_t i = 0; i < ends.value->size(); ++i) MILLRACE_TRY_VOID(read(ends.item(i), true));
  } else if (!ends.is_null()) {
    MILLRACE_TRY(eos, read(ends, true));
    if (!vocabulary.eos) vocabulary.eos = eos;
  }
  if (begin.is_null()) return {};
  MILLRACE_TRY(bos, read(begin, false));
  if (!vocabulary.bos) vocabulary.bos = bos;
  return {};
}

Result<PipelineTokenizer::Parts> read_tokenizer(const JsonAt& root, Spellings& spellings) {
  const JsonAt model = root["model"];
  MILLRACE_TRY_VOID(check_model(model));
  MILLRACE_TRY_VOID(read_vocab(model["vocab"], spellings));
  MILLRACE_TRY(added, read_added_tokens(root["added_tokens"], spellings));
  if (spellings.vocabulary.tokens.empty()) return model["vocab"].expected("at least one token");
  MILLRACE_TRY(normalizer, read_normalizer(root["normalizer"]));
  MILLRACE_TRY(pre_tokenizer, read_pre_tokenizer(root["pre_tokenizer"]));
  MILLRACE_TRY(decoder, read_decoder(root["decoder"]));
  MILLRACE_TRY(frame, read_post_processor(root["post_processor"]));
  MILLRACE_TRY(ignore_merges, model["ignore_merges"].boolean_or(false));
  MILLRACE_TRY(fuse_unknown, model["fuse_unk"].boolean_or(false));

  PipelineTokenizer::Parts parts({pre_tokenizer.byte_level, ignore_merges, fuse_unknown});
  MILLRACE_TRY_VOID(fill_bpe(model, spellings, pre_tokenizer.byte_level, parts.bpe));
  fill_pieces(decoder, added, spellings.vocabulary);
  Regex::Scratch scratch;
  for (Added& a : added) {
    // Control tokens are always looked for in the text as it comes: only there is known who wrote which byte.
    const bool in_normalized = a.normalized && !a.entry.special;
    if (in_normalized) a.entry.text = normalizer.apply(a.entry.text, scratch);
    (in_normalized ? parts.added_normalized : parts.added).add(std::move(a.entry));
  }
  for (const auto* ids : {&frame.prefix, &frame.suffix})
    for (const TokenId id : *ids)
      if (!spellings.vocabulary.find(id))
        return error(Code::corrupt_data, "{}: token {} is not in the vocabulary", root["post_processor"].path, id);
  parts.normalizer = std::move(normalizer);
  parts.pre_tokenizer = std::move(pre_tokenizer.steps);
  parts.prefix = std::move(frame.prefix);
  parts.suffix = std::move(frame.suffix);
  parts.strips_first_blank = decoder.strips_first_blank;
  parts.vocabulary = std::move(spellings.vocabulary);
  return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& tokenizer_json,
                                                  const std::string* tokenizer_config_json,
                                                  const std::string* generation_config_json) {
  MILLRACE_TRY(json, parse_json(tokenizer_json, "tokenizer.json"));
  Spellings spellings;
  MILLRACE_TRY(parts, read_tokenizer(JsonAt::root(json, "tokenizer.json"), spellings));
  if (tokenizer_config_json) {
    MILLRACE_TRY(config, parse_json(*tokenizer_config_json, "tokenizer_config.json"));
    MILLRACE_TRY_VOID(read_tokenizer_config(JsonAt::root(config, "tokenizer_config.json"), spellings, parts));
  }
  if (generation_config_json) {
    MILLRACE_TRY(config, parse_json(*generation_config_json, "generation_config.json"));
    MILLRACE_TRY_VOID(read_generation_config(JsonAt::root(config, "generation_config.json"), parts.vocabulary));
  }
  parts.vocabulary.mark_well_known_ends();
  return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(std::move(parts)));
}

}  // namespace millrace::text
