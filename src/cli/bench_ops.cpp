#include "cli/bench_ops.h"

#include <algorithm>
#include <cctype>
#include <random>

#include "sampling/sampler.h"

namespace millrace::cli {
namespace {

constexpr int kPrefillRepeats = 3, kDecodeRepeats = 16;

/// Draws as for requests of temperature 0.8 and top_p 0.95: what the row task of an engine's step costs.
void draw_row(void*, int row, std::span<float> logits, std::span<std::byte> scratch) noexcept {
  static const sampling::Params params{.temperature = 0.8f, .top_p = 0.95f};
  static const sampling::TokenCounts counts;
  sampling::Sampled sampled;
  sampling::sample(logits, {}, counts, params, {0, 0, static_cast<std::uint64_t>(row)}, scratch, sampled);
}

/// Sequences of equal length side by side in the pool.
class Steps {
 public:
  Steps(model::Model& model, int sequences, int length) : model_(model) {
    const int block_tokens = model.info().cache_groups[0].block_tokens, blocks = (length + block_tokens - 1) / block_tokens;
    for (int s = 0; s < sequences; ++s) {
      blocks_.emplace_back();
      for (int b = 0; b < blocks; ++b) blocks_.back().push_back({s * blocks + b});
    }
    for (const auto& blocks_of_one : blocks_) tables_.emplace_back(blocks_of_one);
    std::mt19937 random(1);
    for (int i = 0; i < std::max(length, sequences); ++i)
      tokens_.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(model.info().vocab_size)));
  }

  /// Tokens [first, first + count) of every sequence in one step.
  Result<void> run(int first, int count) {
    slices_.clear();
    for (std::size_t s = 0; s < tables_.size(); ++s)
      slices_.push_back({.tokens = {tokens_.data(), static_cast<std::size_t>(count)}, .first = first, .block_tables = {&tables_[s], 1},
                         .outputs = model::Outputs::last});
    auto out = model_.wait(model_.submit(slices_, {draw_row, nullptr}));
    if (!out) return std::move(out).error();
    return {};
  }

 private:
  model::Model& model_;
  std::vector<std::vector<BlockId>> blocks_;
  std::vector<std::span<const BlockId>> tables_;
  std::vector<TokenId> tokens_;
  std::vector<model::StepSlice> slices_;
};

/// One unmeasured step, then `repeats` that count.
Result<void> measure(model::Model& model, Steps& steps, int first, int count, int repeats, const OpTime& row, std::vector<OpTime>& out) {
  MILLRACE_TRY_VOID(steps.run(first, count));
  model.profile(true);
  for (int i = 0; i < repeats; ++i) MILLRACE_TRY_VOID(steps.run(first, count));
  const std::vector<OpTime>::difference_type begin = std::ssize(out);
  for (const model::Model::OpProfile& launch : model.profiled()) {
    const std::string scope = any_layer(launch.scope);
    auto found = std::find_if(out.begin() + begin, out.end(), [&](const OpTime& o) { return o.op == launch.op && o.scope == scope && o.shape == launch.shape; });
    if (found == out.end()) {
      out.push_back(row);
      found = out.end() - 1;
      found->op = launch.op, found->scope = scope, found->shape = launch.shape, found->arithmetic = launch.work.arithmetic;
    }
    ++found->launches;
    found->us += launch.total_us / repeats;
    found->flops += launch.work.flops;
    found->bytes += launch.work.bytes;
  }
  model.profile(false);
  return {};
}

}  // namespace

std::string any_layer(std::string_view scope) {
  std::string out;
  for (std::size_t i = 0; i < scope.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(scope[i])) != 0;
    if (digit && (i == 0 || scope[i - 1] == '.')) {
      out += '*';
      while (i + 1 < scope.size() && std::isdigit(static_cast<unsigned char>(scope[i + 1])) != 0) ++i;
    } else {
      out += scope[i];
    }
  }
  return out;
}

double arithmetic_roof(const Roof& roof, ops::Arithmetic kind) {
  const double own = kind == ops::Arithmetic::int8 ? roof.int8_gops : kind == ops::Arithmetic::bf16 ? roof.bf16_gflops : roof.f32_gflops;
  return own > 0 ? own : roof.f32_gflops;
}

Result<std::vector<OpTime>> time_ops(model::Model& model, int prompt_tokens, std::span<const int> batches, int context) {
  std::vector<OpTime> out;
  {
    Steps steps(model, 1, prompt_tokens);
    MILLRACE_TRY_VOID(measure(model, steps, 0, prompt_tokens, kPrefillRepeats, {.work = "prefill"}, out));
  }
  for (const int batch : batches) {
    Steps steps(model, batch, context + 1);
    MILLRACE_TRY_VOID(measure(model, steps, context, 1, kDecodeRepeats, {.work = "decode", .batch = batch}, out));
  }
  return out;
}

std::string decode_behind(int context) { return "decode behind " + std::to_string(context); }

Result<std::vector<OpTime>> time_long_ops(model::Model& model, int prompt_tokens, int chunk, int context) {
  std::vector<OpTime> out;
  Steps steps(model, 1, std::max(prompt_tokens, context + 1));
  MILLRACE_TRY_VOID(measure(model, steps, prompt_tokens - chunk, chunk, kPrefillRepeats, {.work = "prefill to " + std::to_string(prompt_tokens)}, out));
  MILLRACE_TRY_VOID(measure(model, steps, context, 1, kDecodeRepeats, {.work = decode_behind(context)}, out));
  return out;
}

}  // namespace millrace::cli
