#include "cli/parse.h"

#include <gtest/gtest.h>

#include <map>

#include "cli/option_table.h"
#include "model/kv_format.h"

namespace millrace::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Result<Call> parse(const std::vector<std::string>& args, const Variables& variables = {}) {
  return parse_call(args, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const std::vector<std::string>& args, const Variables& variables = {}) {
  const auto call = parse(args, variables);
  return call ? "accepted" : call.error().message;
}

TEST(Parse, a_flag_wins_over_its_variable_and_a_variable_over_the_default) {
  const std::vector<std::string> args = {"run", "m.gguf", "-p", "a"};
  EXPECT_EQ(parse(args)->options.kv, "f16");
  EXPECT_EQ(parse(args, {{"MILLRACE_KV", "bf16"}})->options.kv, "bf16");
  for (const auto& row : model::kKvFormats) EXPECT_TRUE(parse(args, {{"MILLRACE_KV", std::string(row.name)}}).ok()) << row.name;
  EXPECT_EQ(parse({"run", "m.gguf", "-p", "a", "--kv", "f32"}, {{"MILLRACE_KV", "bf16"}})->options.kv, "f32");
}

TEST(Parse, a_prompt_may_look_like_a_flag_be_empty_or_be_a_list) {
  const auto call = parse({"run", "m", "-p", "--json", "-p", "", "-p", "[1,2]", "-n", "-1"});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->options.prompts, (std::vector<std::string>{"--json", "", "[1,2]"}));
  EXPECT_FALSE(call->options.json);
  EXPECT_EQ(call->options.max_tokens, -1);
}

TEST(Parse, letters_equals_signs_and_positionals_anywhere) {
  const auto call = parse({"run", "-n5", "--prompt=a b", "m.gguf", "--json"});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->options.max_tokens, 5);
  EXPECT_EQ(call->options.model, "m.gguf");
  EXPECT_TRUE(call->options.json);
  EXPECT_EQ(*parse({"tokenize", "m", "--", "--text"})->options.text, "--text");
  EXPECT_EQ(*parse({"tokenize", "m", ""})->options.text, "");
  EXPECT_EQ(parse({"run", "m", "--prompt=", "--system=", "-p", "="})->options.prompts, (std::vector<std::string>{"", "="}));
  EXPECT_FALSE(parse({"tokenize", "m"})->options.text.has_value());
}

TEST(Parse, a_first_word_with_choices_is_left_out_by_any_other_word) {
  EXPECT_EQ(parse({"bench", "m.gguf"})->options.mode, "");
  EXPECT_EQ(parse({"bench", "m.gguf"})->options.model, "m.gguf");
  const auto call = parse({"bench", "--json", "kv", "--threads", "1", "m.gguf"});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->options.mode, "kv");
  EXPECT_EQ(call->options.model, "m.gguf");
  EXPECT_EQ(parse({"bench", "kv"})->options.model, "");
  EXPECT_EQ(parse({"bench", "kv", "kv"})->options.model, "kv");
  EXPECT_EQ(parse({"bench", "./kv"})->options.mode, "");
  EXPECT_EQ(refusal({"bench", "m.gguf", "kv", "x"}), "unexpected argument 'x'; see millrace bench --help");
}

TEST(Parse, wrong_use_is_one_sentence_that_names_the_flag) {
  EXPECT_EQ(refusal({"walk"}), "unknown command 'walk'; see millrace --help");
  EXPECT_EQ(refusal({"run", "m"}), "--prompt is missing; see millrace run --help");
  EXPECT_EQ(refusal({"run", "-p", "a"}), "<model> is missing; see millrace run --help");
  EXPECT_EQ(refusal({"run", "m", "-p"}), "--prompt needs a value; see millrace run --help");
  EXPECT_EQ(refusal({"run", "m", "-p", "a", "--fast"}), "unknown option '--fast'; see millrace run --help");
  EXPECT_EQ(refusal({"run", "m", "x", "-p", "a"}), "unexpected argument 'x'; see millrace run --help");
  EXPECT_EQ(refusal({"run", "m", "-p", "a", "--kv", "f32", "--kv", "f16"}), "--kv is given 2 times; see millrace run --help");
}

TEST(Parse, a_model_has_a_name) {
  EXPECT_EQ(refusal({"serve", "m", "--served-model-name", "a", "--served-model-name", ""}), "--served-model-name: expected a name, got ''");
  EXPECT_EQ(refusal({"serve", "m"}, {{"MILLRACE_SERVED_MODEL_NAME", ""}}), "MILLRACE_SERVED_MODEL_NAME: expected a name, got ''");
}

TEST(Parse, numbers_outside_their_bounds_are_refused_with_the_bounds) {  // O10.1
  for (const char* threads : {"0", "-1", "100000", "two", "", "1.5", "99999999999999999999"})
    EXPECT_EQ(refusal({"run", "m", "-p", "a", "--threads", threads}), fmt::format("--threads: expected 1 to 1024, got '{}'", threads));
  EXPECT_EQ(refusal({"run", "m", "-p", "a"}, {{"MILLRACE_THREADS", "0"}}), "MILLRACE_THREADS: expected 1 to 1024, got '0'");
  EXPECT_EQ(refusal({"run", "m", "-p", "a", "--temperature", "nan"}), "--temperature: expected 0 to 100, got 'nan'");
  EXPECT_EQ(refusal({"run", "m", "-p", "a", "--seed", "-1"}), "--seed: expected a whole positive number, got '-1'");
  EXPECT_EQ(refusal({"run", "m", "-p", "a", "--kv", "f8"}), "--kv: expected one of f32|f16|bf16|int8, got 'f8'");
  EXPECT_EQ(refusal({"run", "m", "-p", "a"}, {{"MILLRACE_JSON", "maybe"}}), "MILLRACE_JSON: expected true or false, got 'maybe'");
}

TEST(Parse, help_wins_over_what_is_missing_or_wrong) {
  EXPECT_EQ(parse({"run", "--help"})->wish, Wish::help);
  EXPECT_EQ(parse({"run", "-h", "--fast"})->wish, Wish::help);
}

TEST(Parse, print_config_says_where_each_value_came_from) {
  const auto call = parse({"chat", "m", "--kv", "f32", "--print-config"}, {{"MILLRACE_SEED", "7"}});
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->wish, Wish::print_config);
  const std::string text = config_text(*call);
  for (const auto& [name, value, source] : {std::tuple{"kv", "'f32'", "--kv"}, {"seed", "7", "MILLRACE_SEED"}, {"temperature", "0.7", "default"}})
    EXPECT_NE(text.find(fmt::format("{:<20} {:<28} {}\n", name, value, source)), std::string::npos) << text;
}

TEST(OptionTable, a_name_stands_for_one_meaning_per_command_and_every_default_is_within_its_bounds) {
  for (const CommandInfo& info : command_table()) {
    std::map<std::string_view, int> names, letters;
    for (const OptionRow* row : rows_of(info.command)) {
      EXPECT_EQ(++names[row->name], 1) << info.name << " --" << row->name;
      EXPECT_TRUE(!row->letter || ++letters[std::string_view(&row->letter, 1)] == 1) << info.name << " -" << row->letter;
      EXPECT_EQ(row->value.empty(), row->is_switch()) << row->name;
      Options options = defaults_of(info.command);
      const std::string value = value_text(options, *row);
      const bool number = row->least < row->most && row->name != "threads" && row->name != "context";  // 0 there: chosen later
      EXPECT_EQ(number ? store(options, *row, row->name, value) : "", "") << info.name;
    }
  }
}

}  // namespace
}  // namespace millrace::cli
