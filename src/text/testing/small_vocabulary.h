#pragma once

// Two vocabularies small enough to work out their tokens by hand, as GGUF metadata; small_json.h has them as files.
// Byte-level: id == byte below 256, then merges. SentencePiece: bytes from 3, characters from 259, merges from 273.

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/metadata.h"
#include "base/utf8.h"

namespace millrace::text::testing {

/// The byte-level spelling of a text.
inline std::string in_alphabet(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    int moved = 0;  // how many unprintable bytes come before this one
    const auto printable = [](int b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD); };
    for (int b = 0; b < byte; ++b) moved += !printable(b);
    append_utf8(out, static_cast<char32_t>(printable(byte) ? byte : 256 + moved));
  }
  return out;
}

struct SmallAdded { int id; const char* text; bool special, lstrip, rstrip; };
inline constexpr SmallAdded kSmallAdded[] = {
    {300, "<|bos|>", true, false, false},      {301, "<|eos|>", true, false, false},
    {302, "<|im_start|>", true, false, false}, {303, "<|im_end|>", true, false, false},
    {304, "<think>", false, false, false},     {305, "<mask>", true, true, false},
    {306, "<tail>", true, false, true},        {307, "<tool>", false, false, false},
    {308, "<tool>x", false, false, false},
};
inline constexpr int kSmallTokens = 309;

using Merges = std::vector<std::pair<std::string, std::string>>;

/// Ids 256 (two blanks) to 272 ("12"), then 273 "é" and 274 to 277: bytes of two characters, which no word holds.
inline Merges small_merges() {
  Merges merges = {{" ", " "},     {"h", "e"},  {"l", "l"},    {"he", "ll"},    {"hell", "o"}, {" ", "hello"},
                   {"o", "r"},     {"w", "or"}, {"l", "d"},    {"wor", "ld"},   {" ", "world"}, {"\n", "\n"},
                   {"'", "s"},     {"'", "S"},  {"S", "T"},    {"O", "P"},      {"1", "2"},    {"\xC3", "\xA9"},
                   {"\x8D", "\xE0"}, {"\xB8", "\xE0"}, {"\xA0", "b"}, {"a", "\xC2"}};
  for (auto& [left, right] : merges) left = in_alphabet(left), right = in_alphabet(right);
  return merges;
}

inline std::vector<std::string> small_tokens() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.push_back(in_alphabet(std::string(1, static_cast<char>(b))));
  for (const auto& [left, right] : small_merges()) tokens.push_back(left + right);
  while (tokens.size() < 300) tokens.push_back("<fill" + std::to_string(tokens.size()) + ">");
  return tokens;
}

inline Merges spm_merges() {
  return {{"l", "l"},  {"h", "e"},    {"he", "ll"},       {"hell", "o"}, {"▁", "hello"}, {"w", "o"}, {"r", "l"},
          {"rl", "d"}, {"wo", "rld"}, {"▁", "world"}, {"▁", "▁"}, {"i", "s"},    {"▁", "is"}};
}

inline std::vector<std::string> spm_tokens() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  for (int b = 0; b < 256; ++b) tokens.push_back(fmt::format("<0x{:02X}>", b));
  for (const char* c : {"▁", "h", "e", "l", "o", "w", "r", "d", "T", "i", "s", ".", "c", "é"}) tokens.emplace_back(c);
  for (const auto& [left, right] : spm_merges()) tokens.push_back(left + right);
  return tokens;
}

/// Metadata and the strings that it points to.
struct SmallGguf {
  std::deque<std::string> strings;
  std::vector<std::pair<std::string, MetadataValue>> values;

  std::string_view keep(std::string text) { return strings.emplace_back(std::move(text)); }
  std::vector<std::string_view> keep_all(const std::vector<std::string>& texts) {
    std::vector<std::string_view> views;
    for (const std::string& text : texts) views.push_back(keep(text));
    return views;
  }
  void set(const std::string& key, MetadataValue value) {
    values.emplace_back("tokenizer.ggml." + key, std::move(value));
  }

  /// The value set last for a key counts.
  Metadata metadata() const {
    Metadata out;
    for (auto it = values.rbegin(); it != values.rend(); ++it) out.insert(it->first, it->second);
    return out;
  }
};

inline SmallGguf byte_level_gguf() {
  SmallGguf gguf;
  std::vector<std::string> tokens = small_tokens();
  std::vector<std::int64_t> types(tokens.size(), 1);
  for (std::size_t i = 256 + small_merges().size(); i < types.size(); ++i) types[i] = 5;
  for (const SmallAdded& a : kSmallAdded) tokens.emplace_back(a.text), types.push_back(a.special ? 3 : 4);
  std::vector<std::string> merges;
  for (const auto& [left, right] : small_merges()) merges.push_back(left + " " + right);
  gguf.set("model", std::string_view("gpt2"));
  gguf.set("pre", std::string_view("qwen2"));
  gguf.set("tokens", gguf.keep_all(tokens));
  gguf.set("token_type", types);
  gguf.set("merges", gguf.keep_all(merges));
  gguf.set("bos_token_id", std::uint64_t{300});
  gguf.set("eos_token_id", std::uint64_t{301});
  return gguf;
}

inline SmallGguf sentencepiece_gguf() {
  SmallGguf gguf;
  const std::vector<std::string> tokens = spm_tokens();
  std::vector<std::int64_t> types(tokens.size(), 1);
  std::vector<double> scores(tokens.size(), -1000.0);
  types[0] = 2, types[1] = types[2] = 3;
  for (std::size_t i = 3; i < 259; ++i) types[i] = 6;
  for (std::size_t i = 273; i < scores.size(); ++i) scores[i] = 272.0 - static_cast<double>(i);
  gguf.set("model", std::string_view("llama"));
  gguf.set("tokens", gguf.keep_all(tokens));
  gguf.set("token_type", types);
  gguf.set("scores", scores);
  gguf.set("bos_token_id", std::uint64_t{1});
  gguf.set("eos_token_id", std::uint64_t{2});
  gguf.set("add_bos_token", true);
  return gguf;
}

}  // namespace millrace::text::testing
