// Drawing one token from a row of 152,000 logits on one thread, by kind of request.
//
//   ninja -C build/release sampling_bench && build/release/sampling_bench [--benchmark_filter=flat]
//
// 32 rows take turns, as in a step of 32 streams: they come from memory or from a cache that all cores share. `flat` is
// what random weights give: top_p 0.95 keeps about 100,000 tokens. `peaked` is more like text: it keeps a few dozen.
// The others are hard: `equal` logits, `few` values, most tokens `masked`, and `rising` ones, whose best are neighbours.

#include <benchmark/benchmark.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "sampling/sampler.h"

namespace millrace::sampling {
namespace {

constexpr int kVocab = 152'000, kRows = 32;

using Rows = std::vector<std::vector<float>>;

Rows rows(const std::string& shape) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, shape == "peaked" ? 5.0f : 1.0f);
  Rows out(kRows, std::vector<float>(kVocab));
  for (auto& row : out)
    for (int i = 0; float& logit : row) {
      logit = normal(random);
      ++i;
      if (shape == "equal") logit = 1;
      if (shape == "few") logit = std::round(2 * logit);
      if (shape == "masked" && i % 16384 != 0) logit = -std::numeric_limits<float>::infinity();
      if (shape == "rising") logit = 1e-4f * static_cast<float>(i);
    }
  return out;
}

void draw(benchmark::State& state, const std::string& shape, const Params& params) {
  auto logits = rows(shape);
  const TokenCounts counts;
  std::vector<std::byte> scratch(scratch_bytes(kVocab));
  Sampled sampled;
  std::uint64_t position = 0;
  for (auto _ : state) {
    sample(logits[position % kRows], {}, counts, params, {1, 0, position}, scratch, sampled);
    benchmark::DoNotOptimize(sampled.token);
    ++position;
  }
}

void register_all() {
  const struct {
    const char* name;
    Params params;
  } kinds[] = {
      {"greedy", {.temperature = 0}},
      {"temperature", {.temperature = 0.8f}},
      {"top_p", {.temperature = 0.8f, .top_p = 0.95f}},
      {"min_p", {.temperature = 0.8f, .min_p = 0.05f}},
      {"top_k", {.temperature = 0.8f, .top_k = 40}},
      {"top_k_1000", {.temperature = 0.8f, .top_k = 1000}},
      {"top_k_top_p", {.temperature = 0.8f, .top_p = 0.95f, .top_k = 40}},
      {"top_p_half", {.temperature = 0.8f, .top_p = 0.5f}},
      {"top_p_logprobs", {.temperature = 0.8f, .top_p = 0.95f, .top_logprobs = 5}},
  };
  for (const std::string shape : {"flat", "peaked", "equal", "few", "masked", "rising"})
    for (const auto& kind : kinds)
      benchmark::RegisterBenchmark((shape + "/" + kind.name).c_str(), [shape, params = kind.params](benchmark::State& s) {
        draw(s, shape, params);
      })->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace millrace::sampling

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  millrace::sampling::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
