// Drawing one token from a row of 152,000 logits on one thread, by kind of request.
//
//   ninja -C build/release sampling_bench && build/release/sampling_bench [--benchmark_filter=flat]
//
// 32 rows take turns, as in a step of 32 streams: they come from memory or from a cache that all cores share. `flat` is
// what random weights give: top_p 0.95 keeps about 100,000 tokens. `peaked` is more like text: it keeps a few dozen.

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "sampling/sampler.h"

namespace millrace::sampling {
namespace {

constexpr int kVocab = 152'000, kRows = 32;

std::vector<std::vector<float>> rows(float spread) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, spread);
  std::vector<std::vector<float>> out(kRows, std::vector<float>(kVocab));
  for (auto& row : out)
    for (float& logit : row) logit = normal(random);
  return out;
}

void draw(benchmark::State& state, float spread, const Params& params) {
  auto logits = rows(spread);
  const TokenCounts counts;
  std::uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sample(logits[position % kRows], {}, counts, params, {1, 0, position}).token);
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
      {"top_k_top_p", {.temperature = 0.8f, .top_p = 0.95f, .top_k = 40}},
      {"top_p_logprobs", {.temperature = 0.8f, .top_p = 0.95f, .top_logprobs = 5}},
  };
  for (const auto& [shape, spread] : {std::pair{"flat", 1.0f}, std::pair{"peaked", 5.0f}})
    for (const auto& kind : kinds)
      benchmark::RegisterBenchmark((std::string(shape) + "/" + kind.name).c_str(), [spread = spread,
                                                                                    params = kind.params](
                                                                                       benchmark::State& s) {
        draw(s, spread, params);
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
