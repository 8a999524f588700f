#include "model/testing/harness.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>

namespace millrace::model::testing {

Harness::Harness(const std::string& path, const LoadOptions& options) {
  auto source = io::open_model(path);
  MILLRACE_CHECK(source.ok(), source.ok() ? "" : source.error().message);
  config_ = read_config(**source).value();
  model_ = load_model(**source, config_, options).value();
}

Stream Harness::stream(std::vector<TokenId> tokens, int first_block) const {
  Stream out{std::move(tokens), {}};
  const int n = (static_cast<int>(out.tokens.size()) + model_->info().cache_groups[0].block_tokens - 1) / model_->info().cache_groups[0].block_tokens;
  for (int i = 0; i < n; ++i) out.blocks.push_back({first_block + i});
  return out;
}

Stream Harness::shuffled(std::vector<TokenId> tokens, unsigned seed) const {
  std::vector<int> order(static_cast<std::size_t>(model_->info().cache_groups[0].n_blocks));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  Stream out = stream(std::move(tokens), 0);
  for (std::size_t i = 0; i < out.blocks.size(); ++i) out.blocks[i] = {order[i]};
  return out;
}

std::vector<float> Harness::logits(const std::vector<Stream>& streams, int chunk) {
  std::vector<float> out;
  const int most = std::min(chunk, model_->info().max_step_outputs);
  for (int done = 0; done < static_cast<int>(streams[0].tokens.size()); done += most) {
    std::vector<StepSlice> slices;
    std::vector<std::span<const BlockId>> tables(streams.size());
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const int left = static_cast<int>(streams[i].tokens.size()) - done;
      if (left <= 0) continue;
      tables[i] = streams[i].blocks;
      slices.push_back({.tokens = std::span(streams[i].tokens).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(std::min(left, most))),
                        .first = done,
                        .block_tables = {&tables[i], 1},
                        .outputs = i == 0 ? Outputs::all : i % 2 ? Outputs::last : Outputs::none});
    }
    const StepOutputs result = model_->wait(model_->submit(slices)).value();
    const auto rows = static_cast<std::size_t>(std::min(most, static_cast<int>(streams[0].tokens.size()) - done));
    const auto first = result.logits.first(rows * static_cast<std::size_t>(config_.vocab_size));
    out.insert(out.end(), first.begin(), first.end());
  }
  return out;
}

std::vector<TokenId> random_tokens(int n, int vocab, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<TokenId> out(static_cast<std::size_t>(n));
  for (TokenId& t : out) t = static_cast<TokenId>(rng() % static_cast<unsigned>(vocab));
  return out;
}

}  // namespace millrace::model::testing
