// Any bytes as a tokenizer.json: refused, or a tokenizer that encodes and decodes any text without an abort.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const std::string file(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = text::make_tokenizer(file, &file, &file);
  if (!tokenizer) {
    MILLRACE_CHECK(is_valid_utf8(tokenizer.error().message), "an error message that is no text");
    return 0;
  }
  // The end of the file as a text: the fuzzer can write both into one input.
  const std::string tail = file.substr(file.size() - std::min<std::size_t>(file.size(), 200));
  for (const std::string& text : {std::string("hello  world\n\n12 \u00e9\xE2\x82 <s>"), tail}) {
    const auto ids = (*tokenizer)->encode(text, text::Specials::as_control);
    for (const TokenId id : ids) MILLRACE_CHECK((*tokenizer)->spelling(id), "an id that the vocabulary has not");
    MILLRACE_CHECK(is_valid_utf8((*tokenizer)->decode((*tokenizer)->add_special(ids), true)),
                   "decoded text is no UTF-8");
    for (const TokenId id : (*tokenizer)->encode(text, text::Specials::as_text))
      MILLRACE_CHECK((*tokenizer)->spelling(id), "an id that the vocabulary has not");
  }
  return 0;
}
