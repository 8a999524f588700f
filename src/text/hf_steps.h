#pragma once

// The steps around the model in tokenizer.json: normalizer, pre_tokenizer, decoder, post_processor. What is not
// known is refused with its path: a step left out would give other tokens without a word.

#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/hf_json.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace millrace::text {

/// Errors of all: corrupt_data, unsupported; each with the JSON path.
Result<Normalizer> read_normalizer(const JsonAt& at);

struct HfPreTokenizer {
  PreTokenizer steps;
  bool byte_level = false;  // words are bytes; the vocabulary spells them in the byte-level alphabet
};
Result<HfPreTokenizer> read_pre_tokenizer(const JsonAt& at);

struct HfDecoder {
  bool byte_level = false;
  bool byte_tokens = false;  // "<0x0A>" is a byte
  bool strips_first_blank = false;
  std::vector<std::pair<std::string, std::string>> replacements;
};
Result<HfDecoder> read_decoder(const JsonAt& at);

/// What is added around a text.
struct HfFrame { std::vector<TokenId> prefix, suffix; };
Result<HfFrame> read_post_processor(const JsonAt& at);

}  // namespace millrace::text
