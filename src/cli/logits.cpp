// logits: float32 [tokens, vocab] of one sequence, through the engine and the kernels that run uses. Mates are random
// sequences that share its steps; they must not change a bit of it, which is what they are for.

#include <chrono>
#include <random>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/token_list.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kMateTokens = 24;  // a mate decodes up to so many after its prompt

/// Random sequences, about as long as the main one, that decode for a while. The same for every call.
std::vector<engine::Request> make_mates(std::int64_t count, std::size_t longest, int vocab_size) {
  std::mt19937 random(1);
  const auto below = [&random](std::size_t n) { return random() % n; };
  std::vector<engine::Request> mates(static_cast<std::size_t>(count));
  for (engine::Request& mate : mates) {
    for (std::size_t n = 1 + below(longest); n > 0; --n)
      mate.prompt.push_back(static_cast<TokenId>(below(static_cast<std::size_t>(vocab_size))));
    mate.max_new_tokens = 1 + static_cast<int>(below(kMateTokens));
    mate.sampling.temperature = 0;
    mate.ignore_eos = true;
  }
  return mates;
}

/// Waits for the last event. Errors: the request's own.
Result<void> finish(engine::Handle& handle) {
  for (;;) {
    const auto event = handle.next(1000ms);
    if (!event || !event->finished) continue;
    if (event->error) return *event->error;
    return {};
  }
}

}  // namespace

Result<int> run_logits(const Options& options) {
  MILLRACE_TRY(tokens, parse_token_list(options.tokens));
  if (tokens.empty()) return error(Code::invalid_argument, "--tokens is empty");
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  for (const TokenId id : tokens)
    if (id >= config.vocab_size)
      return error(Code::invalid_argument, "id {} is not in the vocabulary of {} tokens", id, config.vocab_size);
  const std::size_t longest = std::max<std::int64_t>(std::min<std::int64_t>(static_cast<std::int64_t>(tokens.size()), config.max_positions - kMateTokens), 1);
  auto mates = make_mates(options.batch_with, longest, config.vocab_size);

  // A decoding mate takes one token of each step; the sequence itself may still run in chunks of --chunk.
  Need need{.step_tokens = static_cast<int>(options.chunk + options.batch_with),
            .step_outputs = static_cast<int>(std::min<std::int64_t>(options.chunk, static_cast<std::int64_t>(tokens.size())) + options.batch_with),
            .max_running = static_cast<int>(options.batch_with) + 1,
            .prefix_sharing = false,
            .schedule = schedule_of(options.schedule)};
  need.pool_tokens = in_blocks(static_cast<std::int64_t>(tokens.size()), options);
  for (const auto& mate : mates) need.pool_tokens += in_blocks(static_cast<std::int64_t>(mate.prompt.size()) + mate.max_new_tokens, options);
  MILLRACE_TRY(file, OutputFile::create(options.out));
  Result<void> written;  // this and the next: the engine thread's until the last event; they outlive the session
  int rows_written = 0;
  MILLRACE_TRY(session, start_session(std::move(bundle), config, options, need));
  engine::Request request;
  request.prompt = tokens;
  request.max_new_tokens = 0;
  request.prompt_rows = model::Outputs::all;
  request.row_sink = [&](int first, std::span<const float> rows, int width) {
    MILLRACE_CHECK(first == rows_written && width == config.vocab_size, "rows come in order, a row per position");
    if (written) written = file.append(rows.data(), rows.size_bytes());
    rows_written += static_cast<int>(rows.size()) / width;
  };

  std::vector<engine::Handle> handles;
  const auto submit = [&](engine::Request one) -> Result<void> {
    MILLRACE_TRY(handle, session.engine->submit(std::move(one)));
    handles.push_back(std::move(handle));
    return {};
  };
  for (std::size_t i = 0; i < mates.size() / 2; ++i) MILLRACE_TRY_VOID(submit(std::move(mates[i])));
  MILLRACE_TRY_VOID(submit(std::move(request)));
  for (std::size_t i = mates.size() / 2; i < mates.size(); ++i) MILLRACE_TRY_VOID(submit(std::move(mates[i])));
  for (engine::Handle& handle : handles) MILLRACE_TRY_VOID(finish(handle));

  MILLRACE_TRY_VOID(std::move(written));
  MILLRACE_CHECK(rows_written == static_cast<int>(tokens.size()), "every position gave a row");
  MILLRACE_TRY_VOID(file.commit());
  return 0;
}

}  // namespace millrace::cli
