#include "engine/step_draws.h"

#include <algorithm>

namespace millrace::engine {

void StepDraws::add(const LiveRequest& live, int position, bool keep) {
  Row& row = rows_.emplace_back();
  row.live = &live;
  row.position = position;
  if (keep) {
    row.copy = n_kept_++ * vocab_;
    copies_.resize(std::max(copies_.size(), n_kept_ * vocab_));
  }
  row.sampled.top.reserve(static_cast<std::size_t>(std::max(live.request().sampling.top_logprobs, 0)));
  draws_ = true;
}

void StepDraws::run(void* draws, int row, std::span<float> logits, std::span<std::byte> scratch) noexcept {
  auto& all = *static_cast<StepDraws*>(draws);
  Row& mine = all.rows_[static_cast<std::size_t>(row)];
  if (!mine.live) return;
  if (mine.copy != kOverwrite) {
    const std::span<float> copy = std::span(all.copies_).subspan(mine.copy, all.vocab_);
    std::ranges::copy(logits, copy.begin());
    logits = copy;
  }
  mine.live->draw(logits, mine.position, scratch, mine.sampled);
}

}  // namespace millrace::engine
