#include "cli/roof.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "device/core_group.h"
#include "device/memory.h"

namespace millrace::cli {
namespace {

using Kernel = void (*)(const kernels::RoofArgs&);

constexpr int kRounds = 5;
constexpr std::int64_t kReadBytes = std::int64_t{512} << 20;  // of all threads together: far beyond any cache
constexpr std::int64_t kIterations = 4'000'000;               // some 10 ms

/// 10^9 operations a second of all workers together, the best of some rounds: other work on the machine only lowers it.
double best_rate(device::CoreGroup& group, Kernel kernel, const std::byte* data, std::int64_t bytes) {
  std::vector<double> operations(static_cast<std::size_t>(group.workers()));
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    group.run_once([&](device::Worker& w) {
      const std::int64_t share = bytes / w.count() / 4096 * 4096;
      w.for_tiles(w.count(), [&](int i) {
        kernel({reinterpret_cast<const std::uint8_t*>(data) + share * i, share, kIterations, &operations[static_cast<std::size_t>(i)]});
      });
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double sum = 0;
    for (const double o : operations) sum += o;
    best = std::max(best, sum / seconds / 1e9);
  }
  return best;
}

double barrier_us(device::CoreGroup& group) {
  constexpr int kLaunches = 2000;
  const device::Launch empty = {
      [](const void*, const void*, device::Worker& w) noexcept { w.for_tiles(w.count(), [](int) {}); }, nullptr, "empty"};
  const std::vector<device::Launch> launches(kLaunches, empty);
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    group.run(launches, nullptr);
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kLaunches);
  }
  return best;
}

}  // namespace

Roof measure_roof(kernels::Isa isa, int threads) {
  const auto table = kernels::select_kernels(isa);
  if (!table) return {};
  device::CoreGroup group({.workers = threads});
  Roof roof;
  roof.int8_gops = best_rate(group, table->roof_int8, nullptr, 0);
  roof.bf16_gflops = best_rate(group, table->roof_bf16, nullptr, 0);
  roof.f32_gflops = best_rate(group, table->roof_f32, nullptr, 0);
  roof.barrier_us = barrier_us(group);
  auto memory = device::Buffer::allocate(static_cast<std::size_t>(kReadBytes));
  if (memory) {
    group.run_once([&](device::Worker& w) {
      const std::int64_t share = kReadBytes / w.count() / 4096 * 4096;
      w.for_tiles(w.count(), [&](int i) { std::fill_n(memory->data() + share * i, share, std::byte{1}); });
    });
    roof.read_gbs = best_rate(group, table->roof_read, memory->data(), kReadBytes);
  }
  return roof;
}

}  // namespace millrace::cli
