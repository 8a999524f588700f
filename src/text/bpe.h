#pragma once

// Byte-pair encoding of one word: the earliest merge first, until none applies. Knows bytes and ids; what a word is,
// and which tokens may not come from text at all, is decided by those who fill it.

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/pair_table.h"
#include "text/token_table.h"

namespace millrace::text {

class Bpe {
 public:
  struct Options {
    bool byte_level = false;     // symbols are bytes; otherwise UTF-8 characters
    bool ignore_merges = false;  // a word that is a token is that token, however the merges would cut it
    bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  };

  static constexpr PairTable::Merge kNoMerge = {~std::uint32_t{0}, -1};

  /// Working memory of one encode call, kept between words.
  struct Scratch {
    struct Symbol {
      TokenId token;
      std::int32_t previous, next;           // -1: none
      PairTable::Merge with_next = kNoMerge;
    };
    // Rank in the high half, left symbol in the low one: earliest merge first, of equal ones the leftmost.
    using Candidate = std::uint64_t;
    std::vector<Symbol> symbols;
    std::vector<Candidate> candidates;
  };

  explicit Bpe(Options options) : options_(options) { byte_tokens_.fill(-1); }

  /// `text` as it stands in a word. The first id of a text that is there twice stays.
  void add_token(std::string_view text, TokenId token) { tokens_.add(text, token); }

  /// Ranks follow the order of calls; a pair given again takes the later rank.
  void add_merge(TokenId left, TokenId right, TokenId merged) { merges_.set(left, right, {n_merges_++, merged}); }

  /// Characters without a token of their own are written with these, when all their bytes have one.
  void set_byte_token(unsigned char byte, TokenId token) { byte_tokens_[byte] = token; }

  /// For characters that nothing else covers; without one they vanish, as with Hugging Face.
  void set_unknown(TokenId token) { unknown_ = token; }

  std::optional<TokenId> find(std::string_view text) const { return tokens_.find(text); }

  /// Appends the tokens of `word`. O(n log n) in its bytes, constant stack.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  void cut_into_symbols(std::string_view word, std::vector<Scratch::Symbol>& symbols) const;
  void look_up_merge(std::vector<Scratch::Symbol>& symbols, std::int32_t left) const;
  void merge_all(Scratch& scratch) const;

  Options options_;
  TokenTable tokens_;
  std::array<TokenId, 256> byte_tokens_;  // -1: none
  std::optional<TokenId> unknown_;
  PairTable merges_;
  std::uint32_t n_merges_ = 0;
};

}  // namespace millrace::text
