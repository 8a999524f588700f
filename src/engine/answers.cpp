// Several answers to one prompt. The first is a sequence like any other; the others wait until it draws its first token.
// They draw theirs from the same row, each with its own stream, and become forks of it: the prompt's blocks are shared, and
// the last one is copied when somebody writes to it. When the first ends before that, the next one computes
// the prompt in its place; in the line it is a new arrival.

#include <algorithm>
#include <utility>

#include "engine/loop.h"

namespace millrace::engine {

void Engine::Loop::add_answers(SeqId first, const Arrival& arrival) {
  std::vector<SeqId>& others = answers_[first];
  for (std::size_t i = 1; i < arrival.channels.size(); ++i) {
    auto live = std::make_unique<LiveRequest>(arrival.request, arrival.channels[i], tokenizer_, end_tokens_, arrival.submitted_us, static_cast<int>(i));
    live->take_prompt();
    others.push_back(next_id());
    live_.emplace(others.back(), std::move(live));
  }
}

/// The row of `slice` was just added to the draws.
void Engine::Loop::draw_answers(const sched::Slice& slice) {
  const auto found = answers_.find(slice.seq);
  if (found == answers_.end()) return;
  for (const SeqId id : found->second) draws_.add_answer(*live_.at(id));
}

/// After the commit: `first` has drawn from `row`.
void Engine::Loop::fork_answers(SeqId first, std::size_t row, Microseconds now) {
  const auto others = std::move(answers_.extract(first).mapped());
  LiveRequest& parent = *live_.at(first);
  const Microseconds started_us = parent.started_us();
  const int prompt_tokens = parent.usage().prompt_tokens;
  {
    const std::lock_guard lock(mutex_);
    leave_line(parent.request(), static_cast<int>(others.size()), 0, now);  // the prompt's tokens left with the first
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    LiveRequest& live = *live_.at(others[i]);
    sampling::Sampled drawn = draws_.take_answer(row, i);
    scheduler_.fork(first, others[i], prompt_tokens, std::span(&drawn.token, 1));
    live.start(started_us);
    record(metrics_.queue_us, live.usage().queue_us);
    count_prompt(others[i], live);
    deliver(others[i], live, std::move(drawn), now);
  }
}

/// `id` ends. Whether it is a sequence: an answer that still waits for the first one is none.
bool Engine::Loop::leave_answers(SeqId id) {
  if (auto family = answers_.extract(id)) {
    std::vector<SeqId>& others = family.mapped();
    if (others.empty()) return true;
    const SeqId heir = others.front();
    others.erase(others.begin());
    const auto tokens = scheduler_.tokens(id).first(static_cast<std::size_t>(live_.at(heir)->usage().prompt_tokens));
    std::vector<TokenId> prompt(tokens.begin(), tokens.end());
    if (!others.empty()) answers_.emplace(heir, std::move(others));
    start_sequence(heir, std::move(prompt));
    return true;
  }
  for (auto& [first, others] : answers_)
    if (std::erase(others, id) > 0) return false;
  return true;
}

}  // namespace millrace::engine
