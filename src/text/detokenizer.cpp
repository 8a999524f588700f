#include "base/utf8.h"
#include "text/tokenizer.h"

namespace millrace::text {

std::string Detokenizer::push(TokenId token) {
  // A hidden control token between two halves of a character does not break it.
  if (!keep_special_ && tokenizer_->is_special(token)) return {};
  std::string_view piece = tokenizer_->piece(token);
  if (!piece.empty() && at_start_) {
    at_start_ = false;
    if (tokenizer_->strips_first_blank() && piece.front() == ' ') piece.remove_prefix(1);
  }
  pending_ += piece;

  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Step step = decode_utf8(rest);
    if (step.kind == Utf8Step::Kind::incomplete) break;
    const auto length = static_cast<std::size_t>(step.length);
    if (step.kind == Utf8Step::Kind::character) out += rest.substr(0, length);
    else append_utf8(out, 0xFFFD);
    rest.remove_prefix(length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return out;
}

std::string Detokenizer::finish() {
  std::string out = repair_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace millrace::text
