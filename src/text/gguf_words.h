#pragma once

// How each family of vocabularies that GGUF knows by name (`tokenizer.ggml.pre`) normalizes a text and cuts it into
// words. A GGUF file holds only the name; the rules are those of the family's own tokenizer.json.

#include <string_view>

#include "base/result.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace millrace::text {

struct GgufWords {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;
  bool adds_bos = false;  // when the file does not say
};

/// Errors: unsupported, for a name not in the table.
Result<GgufWords> gguf_words(std::string_view pre);

}  // namespace millrace::text
