#pragma once

// Tokens that are spelled out in the text and found before anything else happens to it: control tokens, and words
// added to a vocabulary later. Leftmost first, then longest. Knows nothing of normalizing, words or merges.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "text/marked_text.h"

namespace millrace::text {

/// The bytes of a text that may spell control tokens, as disjoint, rising ranges that do not touch.
class ControlRanges {
 public:
  static ControlRanges none() { return {}; }
  static ControlRanges all(std::size_t size);
  static ControlRanges of(const MarkedText& text);

  /// Whether the whole of [begin, end) may.
  bool contain(std::size_t begin, std::size_t end) const;

 private:
  struct Range { std::size_t begin, end; };
  std::vector<Range> ranges_;
};

class AddedTokens {
 public:
  struct Entry {
    std::string text;
    TokenId token;
    bool special;              // a control token: only where ControlRanges allow it
    bool lstrip = false;       // the blanks before it belong to it
    bool rstrip = false;       // the blanks after it
    bool single_word = false;  // not next to a word character
  };

  /// A part of a text: a token, or text between tokens. Never empty.
  struct Part {
    std::size_t begin, end;
    std::optional<TokenId> token;
  };

  /// An empty text is never found; of two entries with one text the first stays.
  void add(Entry entry);
  bool empty() const { return entries_.empty(); }

  /// O(n * longest entry) in the worst case, O(n) where few bytes of the text begin an entry.
  std::vector<Part> split(std::string_view text, const ControlRanges& control) const;

 private:
  const Entry* longest_at(std::string_view text, std::size_t at, const ControlRanges& control) const;

  // A trie: (node, byte) -> node, the root is 0; entry_of_node_ is -1 for a node that ends none.
  static std::uint64_t edge(std::uint32_t node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::vector<std::int32_t> entry_of_node_ = {-1};
  std::vector<Entry> entries_;
  bool begins_[256] = {};
};

}  // namespace millrace::text
