#include "text/pipeline_tokenizer.h"

namespace millrace::text {

std::vector<TokenId> PipelineTokenizer::encode(std::string_view text, Specials specials) const {
  return encode(text, specials == Specials::as_control ? ControlRanges::all(text.size()) : ControlRanges::none());
}

std::vector<TokenId> PipelineTokenizer::encode(const MarkedText& text) const {
  return encode(text.text, ControlRanges::of(text));
}

std::vector<TokenId> PipelineTokenizer::encode(std::string_view text, const ControlRanges& control) const {
  std::vector<TokenId> out;
  Scratch scratch;
  for (const AddedTokens::Part& part : parts_.added.split(text, control)) {
    if (part.token) out.push_back(*part.token);
    else encode_plain(text.substr(part.begin, part.end - part.begin), part.begin == 0, scratch, out);
  }
  return out;
}

void PipelineTokenizer::encode_plain(std::string_view text, bool at_start, Scratch& scratch,
                                     std::vector<TokenId>& out) const {
  const std::string normalized = parts_.normalizer.apply(text, scratch.regex);
  const std::string_view view = normalized;
  for (const AddedTokens::Part& part : parts_.added_normalized.split(view, ControlRanges::none())) {
    if (part.token) {
      out.push_back(*part.token);
      continue;
    }
    const Words words = parts_.pre_tokenizer.apply(std::string(view.substr(part.begin, part.end - part.begin)),
                                                   at_start && part.begin == 0, scratch.regex);
    std::size_t begin = 0;
    for (const std::size_t end : words.ends) {
      parts_.bpe.encode(std::string_view(words.text).substr(begin, end - begin), scratch.bpe, out);
      begin = end;
    }
  }
}

std::vector<TokenId> PipelineTokenizer::add_special(std::vector<TokenId> ids) const {
  ids.insert(ids.begin(), parts_.prefix.begin(), parts_.prefix.end());
  ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  return ids;
}

std::string_view PipelineTokenizer::piece(TokenId token) const {
  const Vocabulary::Token* found = parts_.vocabulary.find(token);
  return found ? std::string_view(found->piece) : std::string_view();
}

std::optional<std::string_view> PipelineTokenizer::spelling(TokenId token) const {
  const Vocabulary::Token* found = parts_.vocabulary.find(token);
  if (!found) return std::nullopt;
  return found->spelling;
}

bool PipelineTokenizer::is_special(TokenId token) const {
  const Vocabulary::Token* found = parts_.vocabulary.find(token);
  return found && found->special;
}

bool PipelineTokenizer::ends_generation(TokenId token) const {
  const Vocabulary::Token* found = parts_.vocabulary.find(token);
  return found && found->ends_generation;
}

}  // namespace millrace::text
