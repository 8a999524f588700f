#include "cli/bench_requests.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace millrace::cli {

using namespace std::chrono_literals;

std::vector<TokenId> random_tokens(std::mt19937& random, int n, int vocab_size) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(vocab_size)));
  return tokens;
}

engine::Request greedy_request(std::vector<TokenId> prompt, int new_tokens) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = new_tokens;
  request.max_unread_tokens = new_tokens + 1;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

Result<engine::Event> finish(engine::Handle& handle) {
  std::vector<engine::TokenEvent> tokens;
  for (;;) {
    auto event = handle.next(1000ms);
    if (!event) continue;
    std::ranges::move(event->tokens, std::back_inserter(tokens));
    if (!event->finished) continue;
    if (event->error) return *event->error;
    event->tokens = std::move(tokens);
    return *std::move(event);
  }
}

}  // namespace millrace::cli
