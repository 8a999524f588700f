#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace millrace::cli {
namespace {

Result<std::string> read_all(int fd, const std::string& name, std::size_t most) {
  std::string all;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(Code::not_found, "reading '{}': {}", name, std::strerror(errno));
    if (n == 0) return all;
    all.append(buffer, static_cast<std::size_t>(n));
    if (all.size() > most) return error(Code::invalid_argument, "'{}' is longer than {} bytes", name, most);
  }
}

}  // namespace

Result<void> write_out(std::string_view text) {
  if (const int failure = write_all(STDOUT_FILENO, text.data(), text.size()))
    return error(Code::exhausted, "writing to standard output: {}", std::strerror(failure));
  return {};
}

Result<void> write_json(const nlohmann::ordered_json& object) {
  std::string line = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  // Readers that split text into lines split at these, too.
  for (const auto& [character, escape] : {std::pair{"\u0085", "\\u0085"}, {"\u2028", "\\u2028"}, {"\u2029", "\\u2029"}})
    for (std::size_t at = 0; (at = line.find(character, at)) != line.npos;) line.replace(at, std::strlen(character), escape);
  return write_out(line + "\n");
}

Result<void> write_report(bool as_json, const nlohmann::ordered_json& object, std::string_view text) {
  return as_json ? write_json(object) : write_out(text);
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

void ProgressBar::show(double share) {
  const int percent = static_cast<int>(share * 100);
  if (percent == shown_percent_ || !stderr_is_terminal()) return;
  shown_percent_ = percent;
  std::fprintf(stderr, "\r%s %3d %%", what_.c_str(), percent);
}

ProgressBar::~ProgressBar() {
  if (shown_percent_ >= 0) std::fprintf(stderr, "\r%*s\r", static_cast<int>(what_.size()) + 6, "");
}

Result<std::string> read_file(const std::string& path, std::size_t most) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return error(Code::not_found, "cannot open '{}': {}", path, std::strerror(errno));
  auto text = read_all(fd, path, most);
  ::close(fd);
  return text;
}

Result<std::string> read_stdin() { return read_all(STDIN_FILENO, "standard input", std::size_t{256} << 20); }

}  // namespace millrace::cli
