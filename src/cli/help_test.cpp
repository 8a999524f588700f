// The help texts against tests/golden/help. tools/update_golden.py writes them anew and shows what changed.

#include "cli/help.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace millrace::cli {
namespace {

std::string golden_path(std::string_view name) { return fmt::format("{}/tests/golden/help/{}.txt", MILLRACE_SOURCE_DIR, name); }

void expect_golden(std::string_view name, const std::string& text) {
  if (std::getenv("MILLRACE_UPDATE_GOLDEN")) std::ofstream(golden_path(name)) << text;
  std::stringstream golden;
  golden << std::ifstream(golden_path(name)).rdbuf();
  EXPECT_EQ(golden.str(), text) << "tools/update_golden.py writes the golden files anew";
}

TEST(Help, every_command_prints_its_golden_text) {
  expect_golden("millrace", overview_text());
  for (const CommandInfo& info : command_table()) expect_golden(info.name, help_text(info, MachineDefaults::masked));
}

TEST(Help, no_line_is_too_long_for_a_terminal_of_120_columns) {
  for (const CommandInfo& info : command_table()) {
    std::istringstream lines(help_text(info));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << info.name << ": " << line;
  }
}

}  // namespace
}  // namespace millrace::cli
