#include "text/vocabulary.h"

#include <algorithm>

namespace millrace::text {
namespace {

constexpr std::string_view kEnds[] = {
    "</s>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|EOT|>", "<eos>",
    "<end_of_turn>", "<|end_of_turn|>", "<turn|>", "<｜end▁of▁sentence｜>", "<|return|>", "<|call|>",
};

}  // namespace

void Vocabulary::mark_well_known_ends() {
  // "<|end|>" ends the answer, except where an answer is several messages and "<|return|>" ends it.
  const bool has_return =
      std::ranges::any_of(tokens, [](const Token& t) { return t.special && t.spelling == "<|return|>"; });
  for (Token& token : tokens) {
    if (!token.special) continue;
    if (std::ranges::find(kEnds, token.spelling) != std::end(kEnds)) token.ends_generation = true;
    if (token.spelling == "<|end|>" && !has_return) token.ends_generation = true;
  }
}

}  // namespace millrace::text
