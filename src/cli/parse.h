#pragma once

// A command line and an environment in, options out. Pure: argv and getenv come as arguments. A flag wins over its
// variable, a variable over the default.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command_table.h"

namespace millrace::cli {

/// nullptr when unset.
using Environment = std::function<const char*(const std::string& name)>;

enum class Wish { command, help, print_config };

struct Call {
  const CommandInfo* command = nullptr;
  Wish wish = Wish::command;
  Options options;
  std::vector<std::string> sources;  // per row of rows_of(command): "default", "--threads", "MILLRACE_THREADS"
};

/// `args`: what follows `millrace`, the command's name first.
/// Errors: invalid_argument, wrong use: one sentence that names the flag.
Result<Call> parse_call(std::span<const std::string> args, const Environment& environment);

/// "MILLRACE_MAX_TOKENS" for "max-tokens".
std::string variable_of(std::string_view name);

/// --print-config: one line per option.
std::string config_text(const Call& call);

}  // namespace millrace::cli
