#include "cli/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/interrupts.h"

namespace millrace::cli {

Result<Line> LineReader::next() {
  constexpr std::size_t kLongest = std::size_t{256} << 20;
  std::size_t searched = at_;
  for (;;) {
    const auto end = pending_.find('\n', searched);
    if (end != std::string::npos) {
      Line line{Line::Kind::text, pending_.substr(at_, end - at_)};
      at_ = end + 1;
      return line;
    }
    if (ended_) {
      if (at_ == pending_.size()) return Line{Line::Kind::end, ""};
      Line line{Line::Kind::text, pending_.substr(at_)};
      at_ = pending_.size();
      return line;
    }
    pending_.erase(0, at_), at_ = 0, searched = pending_.size();
    if (pending_.size() > kLongest) return error(Code::invalid_argument, "a line of standard input is longer than {} bytes", kLongest);
    char buffer[1 << 16];
    const int before = interrupts();
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      if (interrupts() != before) return Line{Line::Kind::interrupted, ""};
      continue;
    }
    if (n < 0) return error(Code::invalid_argument, "reading standard input: {}", std::strerror(errno));
    if (n == 0) ended_ = true;
    else pending_.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace millrace::cli
