// perplexity: how surprised the model is by a text. Windows run one after another; only a sum leaves the row sink.

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/session.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

/// -log softmax(row)[token], in double.
double surprise(std::span<const float> row, TokenId token) {
  double top = row[0], sum = 0;
  for (const float x : row) top = std::max<double>(top, x);
  for (const float x : row) sum += std::exp(x - top);
  return top + std::log(sum) - row[static_cast<std::size_t>(token)];
}

/// Mean surprise of positions 1 to n-1 of `window`, each given those before it. Errors: the engine's.
Result<double> mean_surprise(engine::Engine& engine, const std::vector<TokenId>& window) {
  double sum = 0;  // touched by the engine thread until the last event
  engine::Request request;
  request.prompt = window;
  request.max_new_tokens = 0;
  request.prompt_rows = model::Outputs::all;
  request.row_sink = [&](int first, std::span<const float> rows, int width) {
    for (std::size_t row = 0; row * static_cast<std::size_t>(width) < rows.size(); ++row) {
      const std::size_t next = static_cast<std::size_t>(first) + row + 1;
      if (next < window.size()) sum += surprise(rows.subspan(row * static_cast<std::size_t>(width), static_cast<std::size_t>(width)), window[next]);
    }
  };
  MILLRACE_TRY(handle, engine.submit(std::move(request)));
  for (;;) {
    const auto event = handle.next(1000ms);
    if (!event || !event->finished) continue;
    if (event->error) return *event->error;
    return sum / static_cast<double>(window.size() - 1);
  }
}

}  // namespace

Result<int> run_perplexity(const Options& options) {
  MILLRACE_TRY(text, read_file(*options.text));
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  const auto ids = bundle.tokenizer->encode(text, text::Specials::as_control);
  const std::int64_t whole = static_cast<std::int64_t>(ids.size()) / options.window;
  const std::int64_t windows = options.windows > 0 ? options.windows : whole;
  if (windows == 0 || windows > whole)
    return error(Code::invalid_argument, "'{}' has {} tokens: {} windows of {}, not {}", *options.text, ids.size(), whole, options.window, std::max<std::int64_t>(windows, 1));
  if (options.window > config.max_positions)
    return error(Code::invalid_argument, "--window {} is more than the model's {} tokens", options.window, config.max_positions);
  for (const TokenId id : ids)
    if (id >= config.vocab_size) return error(Code::corrupt_data, "'{}': the tokenizer gave id {}, the model has {}", options.model, id, config.vocab_size);

  const Need need{.pool_tokens = in_blocks(options.window, options), .step_tokens = static_cast<int>(options.chunk), .prefix_sharing = false};
  MILLRACE_TRY(session, start_session(std::move(bundle), config, options, need));
  std::vector<double> nll;
  double sum = 0;
  ProgressBar bar("scoring");
  for (std::int64_t i = 0; i < windows; ++i) {
    const auto first = ids.begin() + i * options.window;
    MILLRACE_TRY(mean, mean_surprise(*session.engine, {first, first + options.window}));
    nll.push_back(mean), sum += mean;
    bar.show(static_cast<double>(i + 1) / static_cast<double>(windows));
  }
  const double perplexity = std::exp(sum / static_cast<double>(windows));
  if (options.json) {
    MILLRACE_TRY_VOID(write_json({{"perplexity", perplexity}, {"nll_per_window", nll}, {"window", options.window}, {"windows", windows}}));
  } else {
    std::string out = fmt::format("perplexity {:.4f} over {} windows of {} tokens\n", perplexity, windows, options.window);
    for (std::size_t i = 0; i < nll.size(); ++i) out += fmt::format("window {:<4} nll {:.6f}\n", i, nll[i]);
    MILLRACE_TRY_VOID(write_out(out));
  }
  return 0;
}

}  // namespace millrace::cli
