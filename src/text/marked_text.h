#pragma once

// Text that remembers which of its bytes may spell control tokens: the template's own do, a caller's never.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::text {

/// Where a piece of text came from.
enum class Origin : unsigned char { caller, template_text };

struct MarkedText {
  struct Run { std::size_t length; Origin origin; };

  std::string text;
  std::vector<Run> runs;  // lengths sum to text.size(); neighbours differ

  void append(std::string_view piece, Origin origin) {
    if (piece.empty()) return;
    text.append(piece);
    if (!runs.empty() && runs.back().origin == origin) runs.back().length += piece.size();
    else runs.push_back({piece.size(), origin});
  }
  void append(const MarkedText& other) {
    std::size_t at = 0;
    for (const Run& run : other.runs) append(std::string_view(other.text).substr(at, run.length), run.origin), at += run.length;
  }
};

}  // namespace millrace::text
