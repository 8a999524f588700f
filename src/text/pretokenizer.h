#pragma once

// Cuts a normalized text into the words that byte-pair encoding works on: a list of steps, each of which sees the
// words of the one before. Knows no vocabulary.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"

namespace millrace::text {

/// A text and where its words end: rising, the last one at text.size(); no word is empty.
struct Words {
  std::string text;
  std::vector<std::size_t> ends;
  bool at_start = false;  // the first word is the very start of the text that the caller gave
};

class PreTokenizer {
 public:
  /// What becomes of the matches of a pattern.
  enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

  struct Split { Regex pattern; Behavior behavior; bool invert; };  // inverted: what lies between matches is the match
  struct PrefixBlank {};                                            // one blank before each word without one
  /// Blanks become `marker`; one is put in front of a text, and words begin at markers if `split`.
  struct Metaspace {
    enum class Prefix { never, first, always };
    std::string marker;
    Prefix prefix;  // first: only at Words::at_start
    Regex find_marker;
    bool split;
  };
  using Step = std::variant<Split, PrefixBlank, Metaspace>;

  void add(Step step) { steps_.push_back(std::move(step)); }

  /// `at_start`: nothing of the caller's text comes before this one.
  Words apply(std::string text, bool at_start, Regex::Scratch& scratch) const;

 private:
  std::vector<Step> steps_;
};

/// GPT-2's words, which the step ByteLevel of tokenizer.json cuts by default.
inline constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace millrace::text
