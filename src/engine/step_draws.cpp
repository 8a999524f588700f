#include "engine/step_draws.h"

#include <algorithm>

namespace millrace::engine {

void StepDraws::add(const LiveRequest& live, int position, bool keep) {
  Row& row = rows_.emplace_back();
  row.first = draws_.size();
  row.count = 1;
  row.position = position;
  row.keep = keep;
  if (keep) add_copy(row);
  add_draw(live);
}

void StepDraws::add_answer(const LiveRequest& live) {
  Row& row = rows_.back();
  ++row.count;
  add_copy(row);
  add_draw(live);
}

void StepDraws::add_draw(const LiveRequest& live) {
  Draw& draw = draws_.emplace_back();
  draw.live = &live;
  draw.sampled.top.reserve(static_cast<std::size_t>(std::max(live.request().sampling.top_logprobs, 0)));
}

void StepDraws::add_copy(Row& row) {
  if (row.copy != kNoCopy) return;
  row.copy = n_copies_++ * vocab_;
  copies_.resize(std::max(copies_.size(), n_copies_ * vocab_));
}

void StepDraws::run(void* draws, int row, std::span<float> logits, std::span<std::byte> scratch) noexcept {
  auto& all = *static_cast<StepDraws*>(draws);
  const Row& mine = all.rows_[static_cast<std::size_t>(row)];
  for (std::size_t i = 0; i < mine.count; ++i) {
    std::span<float> values = logits;  // the last draw may overwrite them
    if (mine.keep || i + 1 < mine.count) {
      values = std::span(all.copies_).subspan(mine.copy, all.vocab_);
      std::ranges::copy(logits, values.begin());
    }
    Draw& draw = all.draws_[mine.first + i];
    draw.live->draw(values, mine.position, scratch, draw.sampled);
  }
}

}  // namespace millrace::engine
