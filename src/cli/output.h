#pragma once

// Everything a command prints: standard output with its failures seen, and the progress bar; and what it reads whole.
// Files that appear whole are base/output_file.h.

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/output_file.h"
#include "base/result.h"

namespace millrace::cli {

/// Writes all of it to standard output at once. Errors: exhausted, with the system's reason (full disk, closed pipe).
Result<void> write_out(std::string_view text);

/// One line of JSON on standard output. Bytes that are not UTF-8 become U+FFFD.
Result<void> write_json(const nlohmann::ordered_json& object);

/// A command's report in the form that was asked for.
Result<void> write_report(bool as_json, const nlohmann::ordered_json& object, std::string_view text);

bool stderr_is_terminal();

/// A line "loading   42 %" on standard error that overwrites itself; nothing where standard error is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what) : what_(std::move(what)) {}
  ProgressBar(const ProgressBar&) = delete;
  ~ProgressBar();
  void show(double share);  // [0, 1]; any thread, one at a time

 private:
  std::string what_;
  int shown_percent_ = -1;
};

/// The whole file. Errors: not_found, invalid_argument (a folder, over `most` bytes); each names the path.
Result<std::string> read_file(const std::string& path, std::size_t most = std::size_t{256} << 20);

/// All of standard input.
Result<std::string> read_stdin();

}  // namespace millrace::cli
