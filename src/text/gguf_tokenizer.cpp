// A tokenizer from GGUF metadata. Two kinds: "gpt2", byte-level BPE with merges, and "llama", SentencePiece BPE with
// scores and byte tokens. What the file leaves out follows the Hugging Face tokenizer that it was converted from.

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/gguf_words.h"
#include "text/pipeline_tokenizer.h"

namespace millrace::text {
namespace {

enum Type : std::int64_t { plain = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

constexpr std::string_view kMarker = "\u2581";  // SentencePiece's blank

struct Source {
  const Metadata& metadata;
  std::vector<std::string_view> tokens;
  std::vector<Type> types;

  TokenId size() const { return static_cast<TokenId>(tokens.size()); }
  std::string_view token(TokenId id) const { return tokens[static_cast<std::size_t>(id)]; }
  Type type(TokenId id) const { return types[static_cast<std::size_t>(id)]; }
};

template <class T>
Result<const std::vector<T>*> get_list(const Metadata& metadata, std::string_view key, const char* of) {
  const MetadataValue* value = metadata.find(key);
  if (!value) return error(Code::not_found, "metadata key '{}' is missing", key);
  const auto* list = std::get_if<std::vector<T>>(value);
  if (!list) return error(Code::corrupt_data, "metadata key '{}' is not a list of {}", key, of);
  return list;
}

Result<std::vector<Type>> read_types(const Metadata& metadata, std::size_t n_tokens) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<Type> types(n_tokens, plain);
  const MetadataValue* value = metadata.find(kKey);
  if (!value) return types;
  const auto read = [&](const auto& list) -> Result<void> {
    if (list.size() != n_tokens)
      return error(Code::corrupt_data, "metadata key '{}' has {} entries for {} tokens", kKey, list.size(), n_tokens);
    for (std::size_t i = 0; i < n_tokens; ++i) {
      if (list[i] < 1 || list[i] > 6)
        return error(Code::corrupt_data, "metadata key '{}': token {} has type {}, expected 1 to 6", kKey, i, list[i]);
      types[i] = static_cast<Type>(list[i]);
    }
    return {};
  };
  const auto* list = std::get_if<std::vector<std::int64_t>>(value);
  const auto* unsigned_list = std::get_if<std::vector<std::uint64_t>>(value);
  if (!list && !unsigned_list) return error(Code::corrupt_data, "metadata key '{}' is not a list of integers", kKey);
  MILLRACE_TRY_VOID(list ? read(*list) : read(*unsigned_list));
  return types;
}

Result<Source> read_source(const Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  MILLRACE_TRY(tokens, get_list<std::string_view>(metadata, kKey, "strings"));
  if (tokens->empty() || tokens->size() > static_cast<std::size_t>(kMostTokens))
    return error(Code::corrupt_data, "metadata key '{}' has {} entries, expected 1 to {}", kKey, tokens->size(),
                 kMostTokens);
  for (std::size_t i = 0; i < tokens->size(); ++i)
    if ((*tokens)[i].size() > kLongestSpelling)
      return error(Code::corrupt_data, "metadata key '{}': token {} has {} bytes, at most {} are supported", kKey, i,
                   (*tokens)[i].size(), kLongestSpelling);
  MILLRACE_TRY(types, read_types(metadata, tokens->size()));
  for (std::size_t i = 0; i < types.size(); ++i) {
    // Converters fill a vocabulary up to the size of the embedding with these; no text means them.
    if ((*tokens)[i].starts_with("[PAD") && (*tokens)[i] == fmt::format("[PAD{}]", i)) types[i] = unused;
  }
  return Source{metadata, *tokens, std::move(types)};
}

Result<std::optional<TokenId>> get_token_id(const Source& source, std::string_view name) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  if (!source.metadata.find(key)) return std::optional<TokenId>();
  MILLRACE_TRY(id, source.metadata.get_int(key, 0, source.size() - 1));
  return std::optional(static_cast<TokenId>(id));
}

/// Spellings, roles and added tokens, which both kinds share; pieces are left to the caller.
Result<void> fill_vocabulary(const Source& source, bool adds_bos_by_default, PipelineTokenizer::Parts& parts) {
  Vocabulary& vocabulary = parts.vocabulary;
  for (TokenId id = 0; id < source.size(); ++id) {
    const bool special = source.type(id) == control || source.type(id) == unknown;
    vocabulary.tokens.push_back(
        {.spelling = std::string(source.token(id)), .piece = {}, .exists = true, .special = special});
    if (special || source.type(id) == user_defined)
      parts.added.add({.text = std::string(source.token(id)), .token = id, .special = special});
  }
  MILLRACE_TRY(bos, get_token_id(source, "bos"));
  MILLRACE_TRY(eos, get_token_id(source, "eos"));
  vocabulary.bos = bos;
  vocabulary.eos = eos;
  for (const char* name : {"eos", "eot", "eom"}) {
    MILLRACE_TRY(end, get_token_id(source, name));
    if (end) vocabulary.tokens[static_cast<std::size_t>(*end)].ends_generation = true;
  }
  vocabulary.mark_well_known_ends();

  const auto add_around = [&](const char* name, std::optional<TokenId> token, bool fallback,
                              std::vector<TokenId>& around) -> Result<void> {
    const std::string key = fmt::format("tokenizer.ggml.add_{}_token", name);
    MILLRACE_TRY(wanted, source.metadata.get_bool_or(key, fallback && token));
    if (wanted && !token)
      return error(Code::corrupt_data, "metadata key '{}' is true, but 'tokenizer.ggml.{}_token_id' is missing", key,
                   name);
    if (wanted) around.push_back(*token);
    return {};
  };
  MILLRACE_TRY_VOID(add_around("bos", bos, adds_bos_by_default, parts.prefix));
  return add_around("eos", eos, false, parts.suffix);
}

Result<void> add_merges(const Source& source, Bpe& bpe) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  MILLRACE_TRY(merges, get_list<std::string_view>(source.metadata, kKey, "strings"));
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    const std::size_t blank = merge.find(' ', 1);
    if (blank == merge.npos || merge.size() > 2 * kLongestSpelling)
      return error(Code::corrupt_data, "metadata key '{}': entry {} is not two tokens with a blank between", kKey, i);
    const auto left = bytes_from_alphabet(merge.substr(0, blank)), right = bytes_from_alphabet(merge.substr(blank + 1));
    const auto id_of = [&](const std::optional<std::string>& bytes) { return bytes ? bpe.find(*bytes) : std::nullopt; };
    const auto left_id = id_of(left), right_id = id_of(right);
    const auto merged_id = left_id && right_id ? bpe.find(*left + *right) : std::nullopt;
    if (!merged_id)
      return error(Code::corrupt_data, "metadata key '{}': entry {}, '{}', names a token that is not in the vocabulary",
                   kKey, i, merge);
    bpe.add_merge(*left_id, *right_id, *merged_id);
  }
  return {};
}

Result<PipelineTokenizer::Parts> byte_level_parts(const Source& source) {
  MILLRACE_TRY(pre, source.metadata.get_string("tokenizer.ggml.pre"));
  MILLRACE_TRY(words, gguf_words(pre));
  PipelineTokenizer::Parts parts({.byte_level = true, .ignore_merges = words.ignore_merges});
  MILLRACE_TRY_VOID(fill_vocabulary(source, words.adds_bos, parts));
  for (TokenId id = 0; id < source.size(); ++id) {
    const auto bytes = source.type(id) == plain ? bytes_from_alphabet(source.token(id)) : std::nullopt;
    parts.vocabulary.tokens[static_cast<std::size_t>(id)].piece = bytes ? *bytes : std::string(source.token(id));
    if (bytes) parts.bpe.add_token(*bytes, id);
  }
  MILLRACE_TRY_VOID(add_merges(source, parts.bpe));
  parts.normalizer = std::move(words.normalizer);
  parts.pre_tokenizer = std::move(words.pre_tokenizer);
  return parts;
}

/// SentencePiece merges any two neighbours that make a token, best score first. As pairs, that is every way to cut
/// each token into two others; of equal scores, the longer left part first.
Result<void> add_scored_merges(const Source& source, Bpe& bpe) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  MILLRACE_TRY(scores, get_list<double>(source.metadata, kKey, "floats"));
  if (scores->size() != source.tokens.size())
    return error(Code::corrupt_data, "metadata key '{}' has {} entries for {} tokens", kKey, scores->size(),
                 source.tokens.size());
  struct Pair { double score; int left_length, right_length; TokenId left, right, merged; };  // lengths in characters
  std::vector<Pair> pairs;
  std::vector<std::size_t> cuts;  // where the characters of one token begin
  for (TokenId id = 0; id < source.size(); ++id) {
    if (source.type(id) != plain && source.type(id) != user_defined) continue;
    const double score = (*scores)[static_cast<std::size_t>(id)];
    if (std::isnan(score))
      return error(Code::corrupt_data, "metadata key '{}': the score of token {} is not a number", kKey, id);
    const std::string_view text = source.token(id);
    cuts.clear();
    for (std::size_t at = 0; at < text.size(); at += static_cast<std::size_t>(decode_utf8(text.substr(at)).length))
      cuts.push_back(at);
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      const auto left = bpe.find(text.substr(0, cuts[i]));
      const auto right = left ? bpe.find(text.substr(cuts[i])) : std::nullopt;
      if (right) pairs.push_back({score, static_cast<int>(i), static_cast<int>(cuts.size() - i), *left, *right, id});
    }
  }
  std::ranges::stable_sort(pairs, [](const Pair& a, const Pair& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_length != b.left_length) return a.left_length > b.left_length;
    return a.right_length > b.right_length;
  });
  for (const Pair& pair : pairs) bpe.add_merge(pair.left, pair.right, pair.merged);
  return {};
}

Result<PipelineTokenizer::Parts> sentencepiece_parts(const Source& source) {
  MILLRACE_TRY(adds_prefix, source.metadata.get_bool_or("tokenizer.ggml.add_space_prefix", true));
  MILLRACE_TRY(squeezes, source.metadata.get_bool_or("tokenizer.ggml.remove_extra_whitespaces", false));
  if (squeezes)
    return error(Code::unsupported,
                 "metadata key 'tokenizer.ggml.remove_extra_whitespaces' is true, which is not supported");
  PipelineTokenizer::Parts parts({.fuse_unknown = true});
  MILLRACE_TRY_VOID(fill_vocabulary(source, true, parts));
  if (adds_prefix) parts.normalizer.add(Normalizer::Prepend{std::string(kMarker)});
  parts.normalizer.add(Normalizer::Replace{" ", std::string(kMarker)});
  parts.strips_first_blank = adds_prefix;

  Regex::Scratch scratch;
  Normalizer to_text;
  to_text.add(Normalizer::Replace{std::string(kMarker), " "});
  for (TokenId id = 0; id < source.size(); ++id) {
    const std::string_view spelling = source.token(id);
    std::string& piece = parts.vocabulary.tokens[static_cast<std::size_t>(id)].piece;
    piece = spelling;
    if (source.type(id) == plain || source.type(id) == user_defined) {
      parts.bpe.add_token(spelling, id);
      piece = to_text.apply(spelling, scratch);
    } else if (source.type(id) == byte) {
      const auto value = byte_from_hex_token(spelling);
      if (!value)
        return error(Code::corrupt_data,
                     "metadata key 'tokenizer.ggml.tokens': byte token {} is '{}', expected like '<0x0A>'", id,
                     spelling);
      parts.bpe.set_byte_token(*value, id);
      piece = static_cast<char>(*value);
    } else if (source.type(id) == unknown) {
      parts.bpe.set_unknown(id);
    }
  }
  MILLRACE_TRY(unknown_id, get_token_id(source, "unknown"));
  if (unknown_id) parts.bpe.set_unknown(*unknown_id);
  MILLRACE_TRY_VOID(add_scored_merges(source, parts.bpe));
  return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Metadata& metadata) {
  MILLRACE_TRY(model, metadata.get_string("tokenizer.ggml.model"));
  if (model != "gpt2" && model != "llama")
    return error(Code::unsupported, "metadata key 'tokenizer.ggml.model' is '{}', this build knows gpt2 and llama",
                 model);
  MILLRACE_TRY(source, read_source(metadata));
  MILLRACE_TRY(parts, model == "gpt2" ? byte_level_parts(source) : sentencepiece_parts(source));
  return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(std::move(parts)));
}

}  // namespace millrace::text
