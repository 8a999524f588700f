#include "engine/prompt_logprobs.h"

#include <utility>

#include "base/check.h"

namespace millrace::engine {

PromptLogprobs::PromptLogprobs(std::vector<TokenId> prompt, int n_top)
    : prompt_(std::move(prompt)),
      n_top_(static_cast<std::size_t>(n_top)),
      tokens_(prompt_.size()),
      n_tops_(prompt_.size()),
      top_(prompt_.size() * n_top_) {}

std::shared_ptr<const PromptLogprobs> PromptLogprobs::collect(Request& request, int n_top) {
  MILLRACE_CHECK(n_top >= 0 && n_top <= sampling::kMostTopLogprobs, std::to_string(n_top) + " best tokens");
  const std::shared_ptr<PromptLogprobs> all(new PromptLogprobs(request.prompt, n_top));
  request.prompt_rows = model::Outputs::all;
  request.row_sink = [all](int first, std::span<const float> rows, int width) { all->add(first, rows, width); };
  return all;
}

void PromptLogprobs::add(int first, std::span<const float> rows, int width) {
  const auto vocab = static_cast<std::size_t>(width);
  scratch_.resize(sampling::scratch_bytes(vocab));
  for (std::size_t i = 0; i * vocab < rows.size(); ++i) {
    const std::size_t next = static_cast<std::size_t>(first) + i + 1;
    if (next >= prompt_.size()) return;  // the last row is that of the first new token
    const auto got = sampling::row_logprobs(rows.subspan(i * vocab, vocab), prompt_[next], std::span(top_).subspan(next * n_top_, n_top_), scratch_);
    tokens_[next] = got.of_token;
    n_tops_[next] = got.n_top;
    known_ = static_cast<int>(next) + 1;
  }
}

}  // namespace millrace::engine
