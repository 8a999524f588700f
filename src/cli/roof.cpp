#include "cli/roof.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cli/roof_loops.h"

namespace millrace::cli {
namespace {

constexpr int kTries = 5;                                     // the best counts: others run on the machine too
constexpr std::int64_t kReadBytes = std::int64_t{512} << 20;  // all threads together; far beyond any L3 share
constexpr Microseconds kTry_us = 60'000;

/// Seconds that `work(thread)` takes on all threads at once, starting together.
double seconds_of(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  const Microseconds start = now_us();
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
  return static_cast<double>(now_us() - start) / 1e6;
}

/// Operations per second, in 10^9, of `loop` on all threads. Rounds grow until one try is long enough to time.
double giga_ops(const ArithmeticLoop& loop, int threads) {
  if (!loop.run) return 0;
  std::int64_t rounds = 1 << 14;
  const auto work = [&](int) { loop.run(rounds); };
  while (seconds_of(threads, work) * 1e6 < kTry_us) rounds *= 2;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double ops = loop.ops_per_round * static_cast<double>(rounds) * threads;
    best = std::max(best, ops / seconds_of(threads, work) / 1e9);
  }
  return best;
}

double read_gbs(kernels::Isa isa, int threads) {
  const auto read = read_loop(isa);
  const std::int64_t words = kReadBytes / threads / 64 * 8;  // 8-byte words of one thread, whole cache lines
  std::vector<std::unique_ptr<std::uint64_t[]>> parts(static_cast<std::size_t>(threads));
  seconds_of(threads, [&](int i) { parts[static_cast<std::size_t>(i)] = std::make_unique<std::uint64_t[]>(static_cast<std::size_t>(words)); });
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double seconds = seconds_of(threads, [&](int part) { read(parts[static_cast<std::size_t>(part)].get(), words); });
    best = std::max(best, static_cast<double>(words) * 8 * threads / seconds / 1e9);
  }
  return best;
}

}  // namespace

Roof measure_roof(kernels::Isa isa, int threads) {
  const RoofLoops loops = roof_loops(isa);
  Roof roof;
  roof.int8_gops = giga_ops(loops.int8, threads);
  roof.bf16_gflops = giga_ops(loops.bf16, threads);
  roof.f32_gflops = giga_ops(loops.f32, threads);
  roof.read_gbs = read_gbs(isa, threads);
  return roof;
}

}  // namespace millrace::cli
