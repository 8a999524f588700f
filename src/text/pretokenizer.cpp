#include "text/pretokenizer.h"

#include <algorithm>

namespace millrace::text {
namespace {

using Behavior = PreTokenizer::Behavior;

/// A stretch of one word: a match, or what lies between two.
struct Piece { Span span; bool is_match; };

std::vector<Piece> cut(Span word, const std::vector<Span>& matches, bool invert) {
  std::vector<Piece> pieces;
  std::size_t done = word.begin;
  for (const Span match : matches) {
    if (match.begin > done) pieces.push_back({{done, match.begin}, invert});
    pieces.push_back({match, !invert});
    done = match.end;
  }
  if (done < word.end) pieces.push_back({{done, word.end}, invert});
  return pieces;
}

/// The spans of the new words, in order. Only `removed` leaves gaps.
void append_words(const std::vector<Piece>& pieces, Behavior behavior, std::vector<Span>& words) {
  const auto first = static_cast<std::ptrdiff_t>(words.size());
  bool previous_match = false;
  // A match joins its neighbour when that is no match itself: "a--b" with the previous is "a-", "-", "b".
  const auto join_or_add = [&](const Piece& piece) {
    const bool joins =
        behavior == Behavior::contiguous ? piece.is_match == previous_match : piece.is_match && !previous_match;
    if (joins && static_cast<std::ptrdiff_t>(words.size()) > first) {
      words.back() = {std::min(words.back().begin, piece.span.begin), std::max(words.back().end, piece.span.end)};
    } else {
      words.push_back(piece.span);
    }
    previous_match = piece.is_match;
  };
  switch (behavior) {
    case Behavior::removed:
      for (const Piece& piece : pieces)
        if (!piece.is_match) words.push_back(piece.span);
      break;
    case Behavior::isolated:
      for (const Piece& piece : pieces) words.push_back(piece.span);
      break;
    case Behavior::merged_with_previous:
    case Behavior::contiguous:
      std::ranges::for_each(pieces, join_or_add);
      break;
    case Behavior::merged_with_next:
      std::for_each(pieces.rbegin(), pieces.rend(), join_or_add);
      std::reverse(words.begin() + first, words.end());
      break;
  }
}

Words split(Words words, const Regex& pattern, Behavior behavior, bool invert, Regex::Scratch& scratch) {
  std::vector<Span> spans, matches;
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    matches.clear();
    pattern.find_all(words.text, {begin, end}, scratch, matches);
    append_words(cut({begin, end}, matches, invert), behavior, spans);
    begin = end;
  }
  Words out;
  out.at_start = words.at_start && !spans.empty() && spans.front().begin == 0;
  out.ends.reserve(spans.size());
  if (behavior == Behavior::removed) {
    for (const Span span : spans) {
      out.text.append(words.text, span.begin, span.end - span.begin);
      out.ends.push_back(out.text.size());
    }
  } else {
    out.text = std::move(words.text);
    for (const Span span : spans) out.ends.push_back(span.end);
  }
  return out;
}

/// Each word, rewritten by `rewrite(word, is_first)`.
template <class Rewrite>
Words rewritten(const Words& words, Rewrite rewrite) {
  Words out;
  out.at_start = words.at_start;
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    out.text += rewrite(std::string_view(words.text).substr(begin, end - begin), begin == 0);
    out.ends.push_back(out.text.size());
    begin = end;
  }
  return out;
}

Words apply_metaspace(const Words& words, const PreTokenizer::Metaspace& step, Regex::Scratch& scratch) {
  using Prefix = PreTokenizer::Metaspace::Prefix;
  Words out = rewritten(words, [&](std::string_view word, bool first) {
    std::string marked;
    for (const char c : word)
      if (c == ' ') marked += step.marker;
      else marked += c;
    const bool wants = step.prefix == Prefix::always || (step.prefix == Prefix::first && first && words.at_start);
    if (wants && !marked.starts_with(step.marker)) marked.insert(0, step.marker);
    return marked;
  });
  return step.split ? split(std::move(out), step.find_marker, Behavior::merged_with_next, false, scratch) : out;
}

}  // namespace

Words PreTokenizer::apply(std::string text, bool at_start, Regex::Scratch& scratch) const {
  Words words;
  if (text.empty()) return words;
  words.ends.push_back(text.size());
  words.text = std::move(text);
  words.at_start = at_start;
  for (const Step& step : steps_) {
    if (const auto* by_pattern = std::get_if<Split>(&step)) {
      words = split(std::move(words), by_pattern->pattern, by_pattern->behavior, by_pattern->invert, scratch);
    } else if (std::holds_alternative<PrefixBlank>(step)) {
      words = rewritten(
          words, [](std::string_view word, bool) { return (word.starts_with(' ') ? "" : " ") + std::string(word); });
    } else if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
      words = apply_metaspace(words, *metaspace, scratch);
    }
  }
  return words;
}

}  // namespace millrace::text
