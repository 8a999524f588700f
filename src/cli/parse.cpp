#include "cli/parse.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "cli/option_table.h"

namespace millrace::cli {

using namespace std::string_literals;

namespace {

/// What the command line says about one row; the library below only splits words.
struct Words {
  const OptionRow* row;
  std::vector<std::string> values;
  CLI::Option* option = nullptr;
};

std::string flag_names(const OptionRow& row) {
  if (row.place == Place::positional) return std::string(row.name);
  return row.letter ? fmt::format("-{},--{}", row.letter, row.name) : fmt::format("--{}", row.name);
}

std::string spelled(const OptionRow& row) {
  return row.place == Place::positional ? std::string(row.value) : fmt::format("--{}", row.name);
}

Error usage_error(const CommandInfo& info, const std::string& sentence) {
  return error(Code::invalid_argument, "{}; see millrace {} --help", sentence, info.name);
}

/// The words of `args`, last first as the library takes them. It would let "--tokens=" swallow the next word: an empty
/// value becomes a word of its own.
std::vector<std::string> reversed_words(std::span<const std::string> args, const std::vector<Words>& words) {
  std::vector<std::string> out;
  for (const std::string& arg : args) {
    out.push_back(arg);
    for (const Words& word : words)
      if (word.row->place == Place::flag && !word.row->is_switch() && arg == fmt::format("--{}=", word.row->name))
        out.back().pop_back(), out.emplace_back();
  }
  std::reverse(out.begin(), out.end());
  return out;
}

/// Splits `args` into `words`. Returns "" or what is wrong.
std::string split_words(std::span<const std::string> args, std::vector<Words>& words, bool& help, bool& print_config) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.validate_positionals();  // a word that is no choice of the first positional is the second
  app.add_flag("-h,--help", help);
  app.add_flag("--print-config", print_config);
  for (Words& word : words) {
    word.option = word.row->is_switch() ? app.add_flag(flag_names(*word.row)) : app.add_option(flag_names(*word.row), word.values);
    if (!word.row->is_switch()) word.option->expected(1)->allow_extra_args(false);
    word.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (word.row->place == Place::positional && !word.row->choices.empty())
      word.option->check([row = word.row](const std::string& text) { return is_choice(row->choices, text) ? "" : "no choice"s; });
  }
  try {
    app.parse(reversed_words(args, words));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    const std::string what = mismatch.what();
    return what.substr(0, what.find(':')) + " needs a value";
  } catch (const CLI::ParseError& failure) {
    return failure.what();
  }
  for (Words& word : words)
    if (word.row->is_switch() && word.option->count() > 0) word.values = word.option->results();
  auto rest = app.remaining();
  std::erase(rest, "--");  // the library counts the mark before positionals as a rest
  if (rest.empty()) return "";
  return fmt::format("{} '{}'", rest[0].size() > 1 && rest[0][0] == '-' ? "unknown option" : "unexpected argument", rest[0]);
}

}  // namespace

std::string variable_of(std::string_view name) {
  std::string out = "MILLRACE_";
  for (const char c : name) out += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return out;
}

Result<Call> parse_call(std::span<const std::string> args, const Environment& environment) {
  MILLRACE_CHECK(!args.empty(), "the command's name comes first");
  Call call;
  call.command = find_command(args[0]);
  if (!call.command) return error(Code::invalid_argument, "unknown command '{}'; see millrace --help", args[0]);

  std::vector<Words> words;
  for (const OptionRow* row : rows_of(call.command->command)) words.push_back({row, {}});
  bool help = false, print_config = false;
  const std::string wrong = split_words(args.subspan(1), words, help, print_config);
  if (help) return call.wish = Wish::help, call;
  if (!wrong.empty()) return usage_error(*call.command, wrong);
  if (print_config) call.wish = Wish::print_config;

  call.options = defaults_of(call.command->command);
  for (const Words& word : words) {
    std::string& source = call.sources.emplace_back("default");
    const std::string variable = variable_of(word.row->name);
    const char* set = word.row->place == Place::flag ? environment(variable) : nullptr;
    std::vector<std::string> values = word.values;
    if (!values.empty()) source = spelled(*word.row);
    else if (set) values = {set}, source = variable;
    else if (word.row->presence == Presence::required && call.wish == Wish::command)
      return usage_error(*call.command, fmt::format("{} is missing", spelled(*word.row)));
    if (values.size() > 1 && !word.row->is_list())
      return usage_error(*call.command, fmt::format("{} is given {} times", source, values.size()));
    for (const std::string& value : values)
      if (const std::string sentence = store(call.options, *word.row, source, value); !sentence.empty())
        return error(Code::invalid_argument, "{}", sentence);
  }
  return call;
}

std::string config_text(const Call& call) {
  std::string out;
  const auto rows = rows_of(call.command->command);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string value = value_text(call.options, *rows[i]);
    if (call.sources[i] == "default" && rows[i]->shown) value = rows[i]->shown(call.command->command);
    out += fmt::format("{:<20} {:<28} {}\n", rows[i]->name, value, call.sources[i]);
  }
  return out;
}

}  // namespace millrace::cli
