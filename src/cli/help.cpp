#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/option_table.h"

namespace millrace::cli {
namespace {

constexpr std::size_t kDefaultColumn = 88;  // where "[default]" starts, or three blanks after a longer text

std::string spelled(const OptionRow& row) {
  if (row.place == Place::positional) return std::string(row.value);
  std::string out = row.letter ? fmt::format("-{}, --{}", row.letter, row.name) : fmt::format("--{}", row.name);
  if (!row.value.empty()) out += fmt::format(" {}", row.value);
  return out;
}

/// One row: the flag, its text in a column of its own, the default at the end of the last line.
void append_row(std::string& out, const OptionRow& row, std::size_t text_column, const std::string& shown) {
  std::string line = fmt::format("  {:<{}}", spelled(row), text_column - 2);
  std::string_view help = row.help;
  for (std::size_t cut; (cut = help.find('\n')) != help.npos; help.remove_prefix(cut + 1)) {
    out += line.append(help.substr(0, cut)) + '\n';
    line.assign(text_column, ' ');
  }
  line.append(help);
  if (!shown.empty()) line += fmt::format("{}[{}]", std::string(line.size() < kDefaultColumn - 3 ? kDefaultColumn - line.size() : 3, ' '), shown);
  out += line + '\n';
}

std::string usage_line(const CommandInfo& info, const std::vector<const OptionRow*>& rows) {
  std::string line = fmt::format("  millrace {}", info.name);
  for (const OptionRow* row : rows)
    if (row->place == Place::positional)
      line += row->presence == Presence::required ? fmt::format(" {}", row->value) : fmt::format(" [{}]", row->value);
  for (const OptionRow* row : rows)
    if (row->place == Place::flag && row->presence == Presence::required)
      line += row->letter ? fmt::format(" -{} {}", row->letter, row->value) : fmt::format(" --{} {}", row->name, row->value);
  return line + " [options]\n";
}

std::string indented(std::string_view lines) {
  std::string out = "  ";
  for (const char c : lines) out += c == '\n' ? "\n  " : std::string(1, c);
  return out + '\n';
}

}  // namespace

std::string overview_text() {
  std::string out = "Millrace: run language models on this machine.\n\n  millrace <command> [options]\n\n";
  for (const CommandInfo& info : command_table()) out += fmt::format("  {:<12} {}\n", info.name, info.summary);
  return out + "\nmillrace <command> --help shows a command's options; millrace --version the version.\n";
}

std::string help_text(const CommandInfo& info, MachineDefaults defaults) {
  const auto rows = rows_of(info.command);
  std::size_t text_column = 0;
  for (const OptionRow* row : rows) text_column = std::max(text_column, spelled(*row).size() + 4);

  std::string out = fmt::format("{}\n\n{}\n", info.summary, usage_line(info, rows));
  const auto append_rows = [&](auto belongs) {
    for (const OptionRow* row : rows) {
      if (!belongs(*row)) continue;
      const std::string shown = row->shown == nullptr ? "" : row->per_machine && defaults == MachineDefaults::masked ? "..." : row->shown(info.command);
      append_row(out, *row, text_column, shown);
    }
  };
  append_rows([](const OptionRow& row) { return row.place == Place::positional; });
  if (!info.details.empty()) out += fmt::format("\n{}\n", info.details);
  for (const Group group : {Group::what, Group::listen, Group::access, Group::load, Group::sampling, Group::output, Group::memory, Group::speed, Group::other}) {
    const auto belongs = [&](const OptionRow& row) { return row.place == Place::flag && row.group == group; };
    if (std::none_of(rows.begin(), rows.end(), [&](const OptionRow* row) { return belongs(*row); })) continue;
    out += fmt::format("\n{}\n", heading(group));
    append_rows(belongs);
  }
  out += fmt::format("\nExamples\n{}", indented(info.examples));
  return out + fmt::format("\n--log-level can also be set as MILLRACE_LOG_LEVEL; the same holds for every option.\n"
                           "millrace {} --print-config shows each value and where it came from.\n", info.name);
}

}  // namespace millrace::cli
