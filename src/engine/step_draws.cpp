#include "engine/step_draws.h"

namespace millrace::engine {

void StepDraws::add(const LiveRequest& live, int position, bool keep) {
  rows_.push_back({.own = {.live = &live, .sampled = {}, .failure = {}}, .position = position, .keep = keep, .answers = {}});
  draws_ = true;
}

void StepDraws::run(void* draws, int row, std::span<float> logits) noexcept {
  Row& mine = static_cast<StepDraws*>(draws)->rows_[static_cast<std::size_t>(row)];
  if (!mine.own.live) return;
  for (Draw& answer : mine.answers) draw(answer, logits, mine.position, /*keep=*/true);
  draw(mine.own, logits, mine.position, mine.keep);
}

void StepDraws::draw(Draw& one, std::span<float> logits, int position, bool keep) noexcept {
  try {
    std::vector<float> copy;
    if (keep) {
      copy.assign(logits.begin(), logits.end());
      logits = copy;
    }
    one.sampled = one.live->draw(logits, position);
  } catch (...) {
    one.failure = std::current_exception();  // its request ends, and only that one
  }
}

Result<sampling::Sampled> StepDraws::take(Draw& one) {
  if (!one.failure) return std::move(one.sampled);
  try {
    std::rethrow_exception(std::exchange(one.failure, nullptr));
  } catch (const std::exception& failure) {
    return error(Code::exhausted, "drawing a token failed: {}", failure.what());
  } catch (...) {
    return error(Code::exhausted, "drawing a token failed");
  }
}

}  // namespace millrace::engine
