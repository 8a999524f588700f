#pragma once

// --help from the tables: grouped by what people want, defaults in brackets as they are on this machine.

#include <string>

#include "cli/command_table.h"

namespace millrace::cli {

/// Golden files mask what depends on the machine.
enum class MachineDefaults { shown, masked };

/// `millrace --help`: the commands.
std::string overview_text();

/// `millrace <command> --help`.
std::string help_text(const CommandInfo& info, MachineDefaults defaults = MachineDefaults::shown);

}  // namespace millrace::cli
