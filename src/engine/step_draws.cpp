#include "engine/step_draws.h"

namespace millrace::engine {

void StepDraws::add(const LiveRequest& live, int position, bool keep) {
  rows_.push_back({.live = &live, .position = position, .keep = keep, .sampled = {}, .failure = {}});
  draws_ = true;
}

void StepDraws::run(void* draws, int row, std::span<float> logits) noexcept {
  Row& mine = static_cast<StepDraws*>(draws)->rows_[static_cast<std::size_t>(row)];
  if (!mine.live) return;
  try {
    std::vector<float> copy;
    if (mine.keep) {
      copy.assign(logits.begin(), logits.end());
      logits = copy;
    }
    mine.sampled = mine.live->draw(logits, mine.position);
  } catch (...) {
    mine.failure = std::current_exception();  // its request ends, and only that one
  }
}

Result<sampling::Sampled> StepDraws::take(std::size_t row) {
  if (!rows_[row].failure) return std::move(rows_[row].sampled);
  try {
    std::rethrow_exception(std::exchange(rows_[row].failure, nullptr));
  } catch (const std::exception& failure) {
    return error(Code::exhausted, "drawing a token failed: {}", failure.what());
  } catch (...) {
    return error(Code::exhausted, "drawing a token failed");
  }
}

}  // namespace millrace::engine
