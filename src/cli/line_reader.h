#pragma once

// Standard input by lines, as they arrive; Ctrl-C while waiting is seen.

#include <string>

#include "base/result.h"

namespace millrace::cli {

struct Line {
  enum class Kind { text, end, interrupted };
  Kind kind;
  std::string text;  // without its line break
};

class LineReader {
 public:
  /// The next line; the last one may lack its line break. Errors: invalid_argument (a line over 256 MiB, a read that fails).
  Result<Line> next();

 private:
  std::string pending_;
  std::size_t at_ = 0;  // start of what has not been handed out
  bool ended_ = false;
};

}  // namespace millrace::cli
