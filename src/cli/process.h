#pragma once

// Runs another program without a shell and waits for it. Ctrl-C (interrupts.h) ends it too.

#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::cli {

/// Where the program's standard output goes; its standard error goes to `error_log` (a path), its input is empty.
enum class ChildOutput { dropped, to_stderr };

/// Its exit status; 128 + n when signal n ended it. `words[0]` is looked up in PATH.
/// Errors: not_found (no such program), cancelled (interrupted; the program has ended).
Result<int> run_program(const std::vector<std::string>& words, ChildOutput output, const std::string& error_log);

}  // namespace millrace::cli
