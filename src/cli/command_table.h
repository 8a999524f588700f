#pragma once

// The commands: name, what it is for, examples and the function behind it. main.cpp dispatches by it, help.cpp prints it.

#include <span>
#include <string_view>

#include "base/result.h"
#include "cli/options.h"

namespace millrace::cli {

struct CommandInfo {
  Command command;
  std::string_view name;
  std::string_view summary;   // one line, with its full stop
  std::string_view details;   // shown below the usage; may be empty
  std::string_view examples;  // one call a line
  Result<int> (*run)(const Options&);  // the exit status, or one sentence on standard error and exit status 1
};

std::span<const CommandInfo> command_table();

/// nullptr: no such command.
const CommandInfo* find_command(std::string_view name);
const CommandInfo& info_of(Command command);

}  // namespace millrace::cli
