#pragma once

// A string that knows, byte range by byte range, who wrote it: the template or the caller. Every operation of the
// engine that makes one string of others goes through `append` or `slice`, so that no byte ever changes hands.
// Valid UTF-8 throughout; offsets are bytes. It knows no values, no limits and no template.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace millrace::text::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, Origin origin) { append(bytes, origin); }

  std::string_view bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  std::size_t memory() const { return bytes_.capacity() + runs_.capacity() * sizeof(Run); }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;

  /// Whose the byte at `offset` < size() is.
  Origin origin_at(std::size_t offset) const;

  /// Whose all bytes of [begin, end) are: the caller's if any of them is.
  Origin weakest(std::size_t begin, std::size_t end) const;

  MarkedText release() &&;

 private:
  struct Run { std::size_t end; Origin origin; };  // ends rise; the last is size(); neighbours differ

  std::size_t run_at(std::size_t offset) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace millrace::text::jinja
