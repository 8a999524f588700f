#include "kernels/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace::kernels {
namespace {

TEST(Registry, generic_is_always_runnable_and_worst) {
  ASSERT_FALSE(runnable_isas().empty());
  EXPECT_EQ(runnable_isas().front(), Isa::generic);
  EXPECT_TRUE(std::ranges::is_sorted(runnable_isas()));
}

TEST(Registry, without_a_name_the_best_is_chosen) { EXPECT_EQ(choose_isa("").value(), runnable_isas().back()); }

TEST(Registry, every_runnable_isa_can_be_forced_by_its_name) {
  for (const Isa isa : runnable_isas()) {
    const auto chosen = choose_isa(to_string(isa));
    ASSERT_TRUE(chosen.ok());
    EXPECT_EQ(*chosen, isa);
    EXPECT_TRUE(select_kernels(isa).ok());
  }
}

TEST(Registry, an_isa_that_cannot_run_is_refused_by_name) {
  for (const Isa isa : {Isa::avx2, Isa::avx_vnni, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::neon, Isa::neon_i8mm}) {
    if (std::ranges::count(runnable_isas(), isa)) continue;
    const auto chosen = choose_isa(to_string(isa));
    ASSERT_FALSE(chosen.ok());
    EXPECT_EQ(chosen.error().code, Code::unsupported);
    EXPECT_NE(chosen.error().message.find(to_string(isa)), std::string::npos) << chosen.error().message;
  }
}

TEST(Registry, an_unknown_name_is_answered_with_the_list) {
  const auto chosen = choose_isa("sse9");
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.error().code, Code::invalid_argument);
  EXPECT_EQ(
      chosen.error().message,
      "no instruction set is called 'sse9'; expected one of generic, avx2, avx_vnni, avx512, avx512_bf16, amx, neon, "
      "neon_i8mm");
}

TEST(Registry, rows_name_every_kernel_once_with_a_level_not_above_the_table) {
  for (const Isa isa : runnable_isas()) {
    const auto rows = kernel_rows(isa);
    std::size_t i = 0;
#define KERNEL(name, args) EXPECT_EQ(rows[i++].kernel, #name);
#include "kernels/kernel_list.inc"
#undef KERNEL
    EXPECT_EQ(rows.size(), i);
    for (const KernelRow& row : rows) EXPECT_LE(row.from, isa) << row.kernel;
  }
  EXPECT_EQ(kernel_rows(Isa::generic)[0].kernel, "rms_norm_f32");
  EXPECT_EQ(kernel_rows(Isa::generic)[0].from, Isa::generic);
  if (runnable_isas().size() > 1) {  // the first level of any architecture has a norm of its own
    EXPECT_EQ(kernel_rows(runnable_isas()[1])[0].from, runnable_isas()[1]);
  }
}

TEST(Registry, a_level_takes_nothing_from_one_that_it_is_not_built_on) {
  for (const KernelRow& row : kernel_rows(Isa::amx)) EXPECT_NE(row.from, Isa::avx_vnni) << row.kernel;
}

TEST(Registry, overlay_keeps_what_the_upper_level_lacks) {
  KernelTable onto = select_kernels(Isa::generic).value();
  const KernelTable before = onto;
  KernelTable from;
  from.add_f32 = [](const AddArgs&) {};
  overlay(onto, from);
  EXPECT_EQ(onto.add_f32, from.add_f32);
  EXPECT_EQ(onto.gemm_q4_0, before.gemm_q4_0);
  EXPECT_EQ(onto.panel_rows, before.panel_rows);
}

}  // namespace
}  // namespace millrace::kernels
