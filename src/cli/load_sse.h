#pragma once

// Server-sent events out of bytes that come in pieces of any size, as the HTML standard reads them: lines end with LF, CR
// or CRLF, lines that start with ':' are comments, several data lines of one event are joined with LF. Knows no JSON.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace millrace::cli {

class SseParser {
 public:
  using Sink = std::function<void(std::string_view data)>;

  /// Calls `sink` once for each event that has data. An event without its blank line at the end is not one.
  /// Returns "" or what is wrong; then no more may be fed.
  std::string feed(std::string_view bytes, const Sink& sink);

 private:
  void take_line(std::string_view line, const Sink& sink);

  std::string line_;  // what there is of a line that is not whole yet
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // an LF that comes now belongs to the line end that the CR was
  bool at_start_ = true;   // of the stream, where a byte order mark may stand
};

}  // namespace millrace::cli
