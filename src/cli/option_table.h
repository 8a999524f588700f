#pragma once

// The option table: each flag once, with its meaning, its bounds, its group and its default. The parser, --help,
// MILLRACE_* variables, --print-config and the help's golden files are all read from it. A new option is one row.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/options.h"

namespace millrace::cli {

/// Headings of --help, in order.
enum class Group { what, load, sampling, output, memory, speed, other };
std::string_view heading(Group group);

using Field = std::variant<bool Options::*, std::int64_t Options::*, std::uint64_t Options::*, double Options::*,
                           std::string Options::*, std::optional<std::string> Options::*,
                           std::vector<std::string> Options::*>;

/// A set of commands, one bit each.
using Commands = unsigned;
constexpr Commands only(Command command) { return 1u << static_cast<unsigned>(command); }

enum class Presence { optional, required };
enum class Place { flag, positional };

struct OptionRow {
  std::string_view name;   // "max-tokens": --max-tokens and MILLRACE_MAX_TOKENS
  char letter = 0;         // 'n': also -n
  std::string_view value;  // "<n>"; "" for a switch
  Group group = Group::what;
  Field field;
  Commands commands = 0;
  std::string_view help;  // "\n" starts a new line
  double least = 0, most = 0;      // bounds of a number; equal: unbounded
  std::string_view choices;        // "f32|f16|bf16": the words allowed
  std::string (*check)(const std::string& text) = nullptr;  // of a text: "" or what was expected
  std::string (*shown)(Command) = nullptr;  // the default as text; nullptr: none is shown
  bool per_machine = false;                 // the default depends on the machine: masked in golden files
  Place place = Place::flag;
  Presence presence = Presence::optional;

  bool is_switch() const { return std::holds_alternative<bool Options::*>(field); }
  bool is_list() const { return std::holds_alternative<std::vector<std::string> Options::*>(field); }
};

/// Positionals first, each in the order in which a call gives them. An optional one with choices takes a word that is one
/// of them; any other word goes to the next.
std::span<const OptionRow> option_table();

/// Rows of one command, in table order.
std::vector<const OptionRow*> rows_of(Command command);

/// Whether `text` is one of "a|b|c".
bool is_choice(std::string_view choices, std::string_view text);

/// Where a command differs from Options' own defaults (chat samples).
Options defaults_of(Command command);

/// Stores `text` (of flag or variable `spelled`) where the row says; a list grows by it.
/// Returns "" or one sentence: "--threads: expected 1 to 1024, got '0'".
std::string store(Options& options, const OptionRow& row, std::string_view spelled, const std::string& text);

/// The present value as text, for --print-config.
std::string value_text(const Options& options, const OptionRow& row);

}  // namespace millrace::cli
