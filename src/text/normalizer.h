#pragma once

// What happens to a text before it is cut into words: Unicode normal forms, a marker in front, replacements. A list
// of steps, applied in order; broken UTF-8 passes through unchanged.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"

namespace millrace::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// O(n log n) whatever the text: marks that pile up on one letter are sorted, not bubbled.
std::string to_normal_form(std::string_view text, NormalForm form);

class Normalizer {
 public:
  struct Prepend { std::string text; };                 // to every text that is not empty
  struct Replace { std::string what, with; };           // `what` is not empty
  struct ReplaceMatches { Regex what; std::string with; };
  using Step = std::variant<NormalForm, Prepend, Replace, ReplaceMatches>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  std::string apply(std::string_view text, Regex::Scratch& scratch) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace millrace::text
