#pragma once

// The one Tokenizer: added tokens, normalizer, pre-tokenizer, byte-pair encoding, in this order. The loaders
// (gguf_tokenizer.cpp, hf_tokenizer.cpp) fill the parts; nothing here knows a file format.

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace millrace::text {

class PipelineTokenizer : public Tokenizer {
 public:
  struct Parts {
    explicit Parts(Bpe::Options options) : bpe(options) {}

    Vocabulary vocabulary;
    AddedTokens added;             // looked for in the text as it comes
    AddedTokens added_normalized;  // looked for in normalized text; none of them special
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    Bpe bpe;                       // yields no special token but the unknown one
    std::vector<TokenId> prefix, suffix;  // around a text, see add_special
    bool strips_first_blank = false;
  };

  explicit PipelineTokenizer(Parts parts) : parts_(std::move(parts)) {}

  std::vector<TokenId> encode(std::string_view text, Specials specials) const override;
  std::vector<TokenId> encode(const MarkedText& text) const override;
  std::vector<TokenId> add_special(std::vector<TokenId> ids) const override;
  std::string_view piece(TokenId token) const override;
  std::optional<std::string_view> spelling(TokenId token) const override;
  int vocab_size() const override { return static_cast<int>(parts_.vocabulary.tokens.size()); }
  bool is_special(TokenId token) const override;
  bool ends_generation(TokenId token) const override;
  std::optional<TokenId> bos() const override { return parts_.vocabulary.bos; }
  std::optional<TokenId> eos() const override { return parts_.vocabulary.eos; }
  bool strips_first_blank() const override { return parts_.strips_first_blank; }

 private:
  struct Scratch { Bpe::Scratch bpe; Regex::Scratch regex; };

  std::vector<TokenId> encode(std::string_view text, const ControlRanges& control) const;
  void encode_plain(std::string_view text, bool at_start, Scratch& scratch, std::vector<TokenId>& out) const;

  Parts parts_;
};

}  // namespace millrace::text
