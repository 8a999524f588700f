// chat: a conversation in the terminal. The history is kept as messages and rendered anew each turn, so that the
// engine's prefix cache sees the same prefix. Ctrl-C stops the answer; twice, or at an empty prompt twice, leaves.

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/session.h"
#include "text/prompt.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

bool is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

struct Turn {
  std::string text;
  bool left = false;  // Ctrl-C twice
};

/// One answer, streamed. Errors: what submit() and the engine say; a failed write.
Result<Turn> answer(Session& session, engine::Request request) {
  MILLRACE_TRY(handle, session.engine->submit(std::move(request)));
  Turn turn;
  const int before = interrupts();
  for (;;) {
    const auto event = handle.next(100ms);
    if (interrupts() > before) handle.cancel();
    if (interrupts() > before + 1) turn.left = true;
    if (!event) continue;
    turn.text += event->text;
    if (!event->text.empty()) MILLRACE_TRY_VOID(write_out(event->text));
    if (!event->finished) continue;
    if (event->error) return *event->error;
    MILLRACE_TRY_VOID(write_out("\n"));
    if (*event->finished == engine::Finish::length) say("(the answer was cut: the limit of tokens is reached)\n");
    return turn;
  }
}

/// The next message; end also when the user leaves with Ctrl-C twice.
Result<Line> next_message(LineReader& lines) {
  for (bool once = false;;) {
    if (is_terminal()) say("> ");
    MILLRACE_TRY(line, lines.next());
    if (line.kind != Line::Kind::interrupted) return line;
    if (once || !is_terminal()) return Line{Line::Kind::end, ""};
    once = true;
    say("\n(Ctrl-C again or Ctrl-D leaves)\n");
  }
}

}  // namespace

Result<int> run_chat(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  MILLRACE_TRY(source, template_text(*bundle.source));
  MILLRACE_TRY(chat_template, text::ChatTemplate::parse(source));
  MILLRACE_TRY(wished, context_of(options, config, options.kv_memory.empty() ? kContextCap : config.max_positions));
  const Need need{.pool_tokens = in_blocks(wished, options), .step_tokens = static_cast<int>(options.chunk), .max_step_us = max_step_us(options), .prints_memory = true};
  MILLRACE_TRY(session, start_session(std::move(bundle), config, options, need));
  const std::int64_t context = std::min(wished, pool_tokens(session));

  auto messages = text::Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  LineReader lines;
  watch_interrupts();
  for (;;) {
    MILLRACE_TRY(line, next_message(lines));
    if (line.kind == Line::Kind::end) break;
    if (line.text.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", line.text}});
    engine::Request request;
    MILLRACE_TRY(prompt, text::encode_chat(*session.bundle.tokenizer, chat_template, messages));
    request.prompt = std::move(prompt);
    request.sampling = sampling_params(options);
    request.stop = options.stop;
    const std::int64_t room = context - static_cast<std::int64_t>(request.prompt.size());
    if (room < 1)
      return error(Code::invalid_argument, "the conversation has {} tokens, the context {}: start a new one or raise --context",
                   request.prompt.size(), context);
    request.max_new_tokens = static_cast<int>(options.max_tokens < 0 ? room : std::min(options.max_tokens, room));
    MILLRACE_TRY(turn, answer(session, std::move(request)));
    messages.push_back({{"role", "assistant"}, {"content", turn.text}});
    if (turn.left) return kInterruptedStatus;
  }
  if (is_terminal()) say("\n");
  return 0;
}

}  // namespace millrace::cli
