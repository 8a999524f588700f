#pragma once

// Finds stop strings in a text that arrives in pieces. Passes on what can no longer become part of one, and holds the
// rest back. Where the pieces are cut makes no difference.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::engine {

class StopMatcher {
 public:
  /// Where a match ends the text.
  enum class Ends { before_match, after_match };
  /// Whether a match that is complete within a piece is one.
  enum class Match { counts, ignored };

  /// `stops` are not empty. Time and memory grow with their total length.
  explicit StopMatcher(std::span<const std::string> stops, Ends ends = Ends::before_match);

  /// The text that is safe to show now. The match that is complete first ends the text (the longest one, if several end at
  /// the same byte); from then on nothing comes out.
  std::string push(std::string_view piece, Match match = Match::counts);

  /// No more text comes: what was held back.
  std::string finish();

  bool matched() const { return matched_ >= 0; }
  int match() const { return matched_; }  // its index; -1: none

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> fallback;  // [i]: length of the longest proper prefix of text that ends text[0..i]
    std::size_t seen = 0;               // length of the longest prefix of text that ends what was pushed
  };
  std::vector<Stop> stops_;
  std::string held_;
  int matched_ = -1;
  Ends ends_;
};

}  // namespace millrace::engine
