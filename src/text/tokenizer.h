#pragma once

// Text to tokens and back. Immutable after loading; safe from any thread.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/metadata.h"
#include "base/result.h"
#include "text/marked_text.h"

namespace millrace::text {

/// Whether "<|im_end|>" inside the text is the control token or ten characters.
/// The content of a chat message is always `as_text`: it must not be able to forge a role.
/// A raw prompt (`run -p`, /v1/completions) and the template's own text are `as_control`.
/// Added tokens that are not special (user-defined) are recognised either way.
enum class Specials { as_text, as_control };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Nothing is added (no BOS); see add_special. Any bytes are accepted; broken UTF-8 encodes as its bytes where
  /// the vocabulary can. Time grows as n log n in the length of the text, stack does not grow with it.
  virtual std::vector<TokenId> encode(std::string_view text, Specials specials) const = 0;

  /// Control tokens are recognised only where all their bytes come from the template; words merge across borders.
  virtual std::vector<TokenId> encode(const MarkedText& text) const = 0;

  /// `ids` with what this tokenizer adds around a text by itself (BOS, EOS), as the file says.
  virtual std::vector<TokenId> add_special(std::vector<TokenId> ids) const = 0;

  /// The bytes of one token as they stand in running text: a SentencePiece "▁x" gives " x", byte tokens one byte.
  /// One piece alone may end inside a UTF-8 character (see Detokenizer). Empty for an id without a text.
  virtual std::string_view piece(TokenId token) const = 0;

  /// The token exactly as the vocabulary spells it, or nullopt for an id out of range.
  virtual std::optional<std::string_view> spelling(TokenId token) const = 0;

  virtual int vocab_size() const = 0;

  /// Control tokens: hidden from text by default.
  virtual bool is_special(TokenId token) const = 0;
  virtual bool ends_generation(TokenId token) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;

  /// True when the first piece of a text loses its leading blank on decoding (SentencePiece with a dummy prefix).
  virtual bool strips_first_blank() const = 0;

  /// The whole text of `ids`; special tokens left out unless `keep_special`. Broken UTF-8 becomes U+FFFD.
  std::string decode(std::span<const TokenId> ids, bool keep_special) const;
};

/// From GGUF metadata (`tokenizer.ggml.*`). Errors: not_found, corrupt_data, unsupported (model, pre-tokenizer),
/// each naming the key.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Metadata& metadata);

/// From the texts of tokenizer.json and, when there, tokenizer_config.json and generation_config.json (nullptr when
/// absent). Errors: corrupt_data and unsupported, with the JSON path of what was found.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& tokenizer_json, const std::string* tokenizer_config_json,
                                                  const std::string* generation_config_json);

/// Turns a stream of tokens into a stream of whole UTF-8 characters. Never emits half a character, never loses one:
/// bytes that cannot become a character turn into U+FFFD as soon as that is certain.
class Detokenizer {
 public:
  /// `continues`: text stands before the first token (a prompt), so a SentencePiece blank at the start is kept.
  Detokenizer(const Tokenizer& tokenizer, bool continues, bool keep_special = false)
      : tokenizer_(&tokenizer), at_start_(!continues), keep_special_(keep_special) {}

  std::string push(TokenId token);  // "" while a character is incomplete
  std::string finish();             // the rest; broken bytes become U+FFFD

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
  bool at_start_;
  bool keep_special_;
};

}  // namespace millrace::text
