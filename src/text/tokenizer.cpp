#include "text/tokenizer.h"

namespace millrace::text {

std::string Tokenizer::decode(std::span<const TokenId> ids, bool keep_special) const {
  Detokenizer detokenizer(*this, /*continues=*/false, keep_special);
  std::string out;
  for (const TokenId id : ids) out += detokenizer.push(id);
  return out += detokenizer.finish();
}

}  // namespace millrace::text
