#pragma once

// A vocabulary of 48 words for tests of the engine: letters, words that spell "STOP" in two tokens, and characters
// that two tokens share.

#include <array>
#include <string_view>

#include "text/tokenizer.h"

namespace millrace::engine::testing {

inline constexpr TokenId kEnd = 0, kControl = 1;
inline constexpr int kVocab = 48;

class FakeTokenizer : public text::Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view, text::Specials) const override { return {}; }
  std::vector<TokenId> encode(const text::MarkedText&) const override { return {}; }
  std::vector<TokenId> add_special(std::vector<TokenId> ids) const override { return ids; }
  std::string_view piece(TokenId token) const override {
    static constexpr std::array<std::string_view, 10> kOdd = {"<end>", "<control>", " ",        "ST",   "OP",
                                                              "\xC3",  "\xA9",      "\xE2\x82", "\xAC", ". "};
    static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const auto i = static_cast<std::size_t>(token);
    return i < kOdd.size() ? kOdd[i] : kLetters.substr(i - kOdd.size(), 1);
  }
  std::optional<std::string_view> spelling(TokenId token) const override { return piece(token); }
  int vocab_size() const override { return kVocab; }
  bool is_special(TokenId token) const override { return token == kEnd || token == kControl; }
  bool ends_generation(TokenId token) const override { return token == kEnd; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return kEnd; }
  bool strips_first_blank() const override { return false; }
};

}  // namespace millrace::engine::testing
