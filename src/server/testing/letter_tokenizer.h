#pragma once

// The engine tests' vocabulary of 48 words, with texts: letters a to z and A to L, blanks, "<end>" and "<control>".

#include <string>
#include <vector>

#include "engine/testing/fake_tokenizer.h"

namespace millrace::server::testing {

class LetterTokenizer : public engine::testing::FakeTokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, text::Specials specials) const override {
    std::vector<TokenId> ids;
    for (std::size_t at = 0; at < text.size();) {
      const TokenId id = match(text.substr(at), specials);
      ids.push_back(id);
      at += id == kUnknown && text[at] != ' ' ? 1 : piece(id).size();
    }
    return ids;
  }
  std::vector<TokenId> encode(const text::MarkedText& text) const override {
    std::vector<TokenId> ids;
    std::size_t at = 0;
    for (const text::MarkedText::Run& run : text.runs) {
      const auto specials = run.origin == text::Origin::caller ? text::Specials::as_text : text::Specials::as_control;
      for (const TokenId id : encode(std::string_view(text.text).substr(at, run.length), specials)) ids.push_back(id);
      at += run.length;
    }
    return ids;
  }

 private:
  static constexpr TokenId kUnknown = 2;  // the blank
  TokenId match(std::string_view text, text::Specials specials) const {
    for (TokenId id = specials == text::Specials::as_control ? 0 : 2; id < vocab_size(); ++id)
      if (text.starts_with(piece(id))) return id;
    return kUnknown;
  }
};

}  // namespace millrace::server::testing
