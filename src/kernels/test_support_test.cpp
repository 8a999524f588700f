#include "kernels/test_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

namespace millrace::kernels {

#if defined(__x86_64__)
extern const KernelTable kEmulatedAvxVnniKernels;
#endif
#ifdef MILLRACE_SIMDE
extern const KernelTable kEmulatedAvx512Kernels;
extern const KernelTable kEmulatedAvx512Bf16Kernels;
extern const KernelTable kEmulatedAmxKernels;
#endif

namespace testing {

static bool has_own_bf16_dot(Isa isa) { return isa == Isa::avx512_bf16 || isa == Isa::amx; }

const std::vector<Level>& levels() {
  static const std::vector<Level> all = [] {
    std::vector<Level> found;
    for (const Isa isa : runnable_isas())
      found.push_back(
          {std::string(to_string(isa)), std::move(select_kernels(isa)).value(), false, has_own_bf16_dot(isa)});
#if defined(__x86_64__)
    const auto runs = [](Isa isa) { return std::ranges::count(runnable_isas(), isa) > 0; };
    if (!runs(Isa::avx2)) return found;  // the emulations are written in AVX2
    const auto emulate = [&](Isa isa, KernelTable& table, const KernelTable& level) {
      overlay(table, level);
      if (!runs(isa)) found.push_back({fmt::format("{} emulated", to_string(isa)), table, true, has_own_bf16_dot(isa)});
    };
    const KernelTable avx2 = std::move(select_kernels(Isa::avx2)).value();
    KernelTable vnni = avx2;
    emulate(Isa::avx_vnni, vnni, kEmulatedAvxVnniKernels);
#ifdef MILLRACE_SIMDE
    KernelTable table = avx2;
    emulate(Isa::avx512, table, kEmulatedAvx512Kernels);
    emulate(Isa::avx512_bf16, table, kEmulatedAvx512Bf16Kernels);
    emulate(Isa::amx, table, kEmulatedAmxKernels);
#endif
#endif
    return found;
  }();
  return all;
}

TEST(Levels, every_slot_of_every_level_is_set) {
  std::string names;
  for (const Level& level : levels()) {
    names.append(names.empty() ? "" : ", ").append(level.name);
    const KernelTable& table = level.table;
#define KERNEL(kernel, args) EXPECT_NE(table.kernel, nullptr) << level.name << " " #kernel;
#include "kernels/kernel_list.inc"
#undef KERNEL
    EXPECT_TRUE(level.table.panel_rows == 8 || level.table.panel_rows == 16) << level.name;
  }
  std::printf("kernel levels under test: %s\n", names.c_str());
}

}  // namespace testing
}  // namespace millrace::kernels
