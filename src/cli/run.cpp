// run: one answer per prompt, all prompts as one batch. Text streams in the order of the prompts; an answer that is ahead
// of its turn waits in its handle.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/session.h"
#include "text/prompt.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

struct Answer {
  std::vector<TokenId> prompt_ids, ids;
  std::string text;
  engine::Finish finish = engine::Finish::error;
  engine::Usage usage;
  engine::CacheReport cache;
};

/// What the prefix cache did: cached and the computed ones by cause add up to prompt_tokens.
nlohmann::ordered_json to_json(const engine::CacheReport& cache) {
  nlohmann::ordered_json object = {{"cached", cache.cached}, {"computed", nlohmann::ordered_json::object()}};
  for (std::size_t c = 0; c < cache.computed.size(); ++c)
    object["computed"][std::string(kv::to_string(static_cast<kv::MissCause>(c)))] = cache.computed[c];
  if (cache.diverged_at >= 0) object["diverged"] = {{"at", cache.diverged_at}, {"own", cache.own}, {"known", cache.known}};
  return object;
}

double per_second(int tokens, Microseconds us) { return us > 0 && tokens > 0 ? tokens * 1e6 / static_cast<double>(us) : 0; }
double prefill_rate(const engine::Usage& usage) { return per_second(usage.prompt_tokens - usage.cached_tokens, usage.prefill_us); }
double decode_rate(const engine::Usage& usage) { return per_second(usage.completion_tokens - 1, usage.decode_us); }

nlohmann::ordered_json to_json(const Answer& answer) {
  nlohmann::ordered_json object;
  object["text"] = answer.text;
  object["ids"] = answer.ids;
  object["prompt_ids"] = answer.prompt_ids;
  object["finish_reason"] = engine::to_string(answer.finish);
  object["prompt_tokens"] = answer.usage.prompt_tokens;
  object["completion_tokens"] = answer.usage.completion_tokens;
  object["ttft_ms"] = static_cast<double>(answer.usage.ttft_us) / 1000;
  object["prefill_tokens_per_s"] = prefill_rate(answer.usage);
  object["decode_tokens_per_s"] = decode_rate(answer.usage);
  object["cache"] = to_json(answer.cache);
  return object;
}

Result<std::vector<std::vector<TokenId>>> encode_prompts(const ModelBundle& bundle, const Options& options) {
  std::vector<std::vector<TokenId>> all;
  if (!options.chat) {
    if (!options.system.empty()) return error(Code::invalid_argument, "--system needs --chat: a raw prompt has no roles");
    for (const std::string& prompt : options.prompts) all.push_back(text::encode_prompt(*bundle.tokenizer, prompt));
    return all;
  }
  MILLRACE_TRY(source, template_text(*bundle.source));
  MILLRACE_TRY(chat_template, text::ChatTemplate::parse(source));
  for (const std::string& prompt : options.prompts) {
    auto messages = text::Json::array();
    if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
    messages.push_back({{"role", "user"}, {"content", prompt}});
    MILLRACE_TRY(ids, text::encode_chat(*bundle.tokenizer, chat_template, messages));
    all.push_back(std::move(ids));
  }
  return all;
}

/// New tokens that a prompt may still get in `context`. Errors: invalid_argument (no prompt, no room), with the numbers.
Result<int> room_for(const std::vector<TokenId>& prompt, const Options& options, std::int64_t context) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length == 0) return error(Code::invalid_argument, "the prompt is empty: it has 0 tokens");
  const std::int64_t room = context - length;
  if (room < (options.max_tokens == 0 ? 0 : 1))
    return error(Code::invalid_argument, "prompt of {} tokens leaves no room in the context of {}", length, context);
  return static_cast<int>(options.max_tokens < 0 ? room : std::min(options.max_tokens, room));
}

/// Takes events until the last one. Text goes out as it comes unless --json. Ctrl-C cancels.
Result<Answer> collect(engine::Handle& handle, bool stream) {
  Answer answer;
  for (;;) {
    const auto event = handle.next(100ms);
    if (interrupts() > 0) handle.cancel();
    if (!event) continue;
    answer.text += event->text;
    for (const auto& token : event->tokens) answer.ids.push_back(token.id);
    if (stream && !event->text.empty()) MILLRACE_TRY_VOID(write_out(event->text));
    if (!event->finished) continue;
    if (event->error) return *event->error;
    answer.finish = *event->finished;
    answer.usage = event->usage;
    answer.cache = event->cache;
    return answer;
  }
}

void print_speed(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers)
    std::fprintf(stderr, "%d prompt tokens at %.1f/s, %d new tokens at %.1f/s, first token after %.0f ms, ended by %s\n",
                 answer.usage.prompt_tokens, prefill_rate(answer.usage), answer.usage.completion_tokens, decode_rate(answer.usage),
                 static_cast<double>(answer.usage.ttft_us) / 1000, std::string(engine::to_string(answer.finish)).c_str());
}

}  // namespace

Result<int> run_run(const Options& options) {
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  MILLRACE_TRY(prompts, encode_prompts(bundle, options));
  MILLRACE_TRY(context, context_of(options, config, options.max_tokens < 0 && options.kv_memory.empty() ? kContextCap : config.max_positions));

  const int rows = static_cast<int>(std::min<std::size_t>(prompts.size(), 64));  // one result per sequence and step
  Need need{.step_tokens = static_cast<int>(options.chunk), .step_outputs = rows, .max_running = rows,
            .schedule = schedule_of(options.schedule),
            .max_step_us = max_step_us(options)};
  std::vector<int> room;
  for (const auto& prompt : prompts) {
    MILLRACE_TRY(tokens, room_for(prompt, options, context));
    room.push_back(tokens);
    need.pool_tokens += in_blocks(static_cast<std::int64_t>(prompt.size()) + tokens, options);
  }
  need.prints_memory = !options.kv_memory.empty() || !options.kv_disk.empty();
  MILLRACE_TRY(session, start_session(std::move(bundle), config, options, need));

  if (options.max_tokens < 0)  // as far as the pool goes, too
    for (std::size_t i = 0; i < room.size(); ++i)
      room[i] = static_cast<int>(std::clamp<std::int64_t>(pool_tokens(session) - static_cast<std::int64_t>(prompts[i].size()), 1, room[i]));

  watch_interrupts();
  std::vector<engine::Handle> handles;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    engine::Request request;
    request.prompt = prompts[i];
    request.max_new_tokens = room[i];
    request.sampling = sampling_params(options);
    request.stop = options.stop;
    request.max_unread_tokens = room[i] + 1;  // it waits for its turn on standard output
    MILLRACE_TRY(handle, session.engine->submit(std::move(request)));
    handles.push_back(std::move(handle));
  }
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (!options.json && handles.size() > 1) {
      MILLRACE_TRY_VOID(write_out(fmt::format("--- prompt {} of {}\n", i + 1, handles.size())));
    }
    MILLRACE_TRY(answer, collect(handles[i], !options.json));
    answer.prompt_ids = std::move(prompts[i]);
    if (options.json) {
      MILLRACE_TRY_VOID(write_json(to_json(answer)));
    } else if (!answer.text.ends_with('\n')) {
      MILLRACE_TRY_VOID(write_out("\n"));
    }
    answers.push_back(std::move(answer));
  }
  if (!options.json) print_speed(answers);
  return interrupts() > 0 ? kInterruptedStatus : 0;
}

}  // namespace millrace::cli
