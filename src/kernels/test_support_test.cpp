#include "kernels/test_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

namespace millrace::kernels {

#ifdef MILLRACE_SIMDE
extern const KernelTable kEmulatedAvx512Kernels;
extern const KernelTable kEmulatedAvx512Bf16Kernels;
#endif

namespace testing {

const std::vector<Level>& levels() {
  static const std::vector<Level> all = [] {
    std::vector<Level> found;
    for (const Isa isa : runnable_isas())
      found.push_back({std::string(to_string(isa)), std::move(select_kernels(isa)).value(), isa == Isa::avx512_bf16});
#ifdef MILLRACE_SIMDE
    const auto runs = [](Isa isa) { return std::ranges::count(runnable_isas(), isa) > 0; };
    if (runs(Isa::avx2)) {  // the emulation is written in AVX2
      KernelTable table = std::move(select_kernels(Isa::avx2)).value();
      overlay(table, kEmulatedAvx512Kernels);
      if (!runs(Isa::avx512)) found.push_back({"avx512 emulated", table, false});
      overlay(table, kEmulatedAvx512Bf16Kernels);
      if (!runs(Isa::avx512_bf16)) found.push_back({"avx512_bf16 emulated", table, true});
    }
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
