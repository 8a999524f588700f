// template: render a chat template, from a .jinja file or a model, with variables as they stand on the command line or
// line by line on standard input.

#include <nlohmann/json.hpp>

#include <ctime>

#include "cli/commands.h"
#include "cli/line_reader.h"
#include "cli/model_bundle.h"
#include "cli/output.h"
#include "text/prompt.h"

namespace millrace::cli {
namespace {

/// Seconds since the epoch of "2026-11-29T12:34:56", as a clock without a zone. Errors: invalid_argument.
Result<std::int64_t> parse_time(const std::string& text) {
  std::tm parts{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end || *end) return error(Code::invalid_argument, "--now: expected a time as 2026-11-29T12:34:56, got '{}'", text);
  return static_cast<std::int64_t>(timegm(&parts));
}

struct Template {
  text::ChatTemplate parsed;
  text::Json defaults;  // variables that the model gives
};

Result<Template> open_template(const std::string& model) {
  if (model.ends_with(".jinja")) {
    MILLRACE_TRY(source, read_file(model));
    auto parsed = text::ChatTemplate::parse(std::move(source));
    if (!parsed) return std::move(parsed).error().in(fmt::format("'{}'", model));
    return Template{*std::move(parsed), text::Json::object()};
  }
  MILLRACE_TRY(bundle, open_bundle(model));
  MILLRACE_TRY(source, template_text(*bundle.source));
  MILLRACE_TRY(parsed, text::ChatTemplate::parse(std::move(source)));
  return Template{std::move(parsed), text::special_token_variables(*bundle.tokenizer)};
}

Result<std::string> render(const Template& chat, text::Json variables, std::int64_t now) {
  for (const auto& [name, value] : chat.defaults.items())
    if (!variables.contains(name)) variables[name] = value;
  MILLRACE_TRY(rendered, chat.parsed.render(variables, {}, now));
  return std::move(rendered.text);
}

Result<int> render_lines(const Template& chat, std::int64_t now) {
  LineReader lines;
  for (int number = 1;; ++number) {
    MILLRACE_TRY(line, lines.next());
    if (line.kind != Line::Kind::text) return 0;
    if (line.text.empty()) continue;
    auto variables = text::Json::parse(line.text, nullptr, /*allow_exceptions=*/false);
    if (!variables.is_object()) return error(Code::invalid_argument, "line {} of standard input: expected a JSON object", number);
    const auto rendered = render(chat, std::move(variables), now);
    MILLRACE_TRY_VOID(write_json(rendered ? text::Json{{"output", *rendered}} : text::Json{{"error", rendered.error().message}}));
  }
}

}  // namespace

Result<int> run_template(const Options& options) {
  std::int64_t now = text::local_time(std::time(nullptr));
  if (!options.now.empty()) {
    MILLRACE_TRY(given, parse_time(options.now));
    now = given;
  }
  MILLRACE_TRY(chat, open_template(options.model));
  if (options.jsonl) return render_lines(chat, now);
  if (options.messages.empty()) return error(Code::invalid_argument, "nothing to render: --messages or --jsonl");
  auto given = text::Json::parse(options.messages, nullptr, /*allow_exceptions=*/false);
  if (given.is_array()) given = text::Json{{"messages", given}, {"add_generation_prompt", true}};
  if (!given.is_object()) return error(Code::invalid_argument, "--messages: expected a JSON array of messages or an object of variables");
  MILLRACE_TRY(rendered, render(chat, std::move(given), now));
  MILLRACE_TRY_VOID(write_out(rendered));
  return 0;
}

}  // namespace millrace::cli
