#include "engine/step_draws.h"

namespace millrace::engine {

void StepDraws::add(const LiveRequest& live, int position, bool keep) {
  rows_.push_back({.live = &live, .position = position, .keep = keep, .sampled = {}, .answers = {}});
  draws_ = true;
}

void StepDraws::run(void* draws, int row, std::span<float> logits) noexcept {
  Row& mine = static_cast<StepDraws*>(draws)->rows_[static_cast<std::size_t>(row)];
  if (!mine.live) return;
  std::vector<float> copy;
  for (Answer& answer : mine.answers) {
    copy.assign(logits.begin(), logits.end());
    answer.sampled = answer.live->draw(copy, mine.position);
  }
  if (mine.keep) {
    copy.assign(logits.begin(), logits.end());
    logits = copy;
  }
  mine.sampled = mine.live->draw(logits, mine.position);
}

}  // namespace millrace::engine
